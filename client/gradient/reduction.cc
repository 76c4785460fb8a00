#include "client/gradient/reduction.h"

#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "kernels/finite_check.h"

namespace lockstep::gradient {

Reduction::Reduction(const plan::Plan& plan, int rank,
                     std::vector<std::unique_ptr<Communicator>> communicators,
                     BucketStore* store,
                     std::function<void(int, const absl::Status&)> on_failure)
    : plan_(plan),
      rank_(rank),
      communicators_(std::move(communicators)),
      store_(store),
      on_failure_(std::move(on_failure)) {}

absl::Status Reduction::Prepare() {
  item_of_bucket_.assign(plan_.buckets.size(), -1);
  const plan::RankPlan& mine = plan_.ranks[rank_];
  for (const plan::TransferRef& ref : mine.launch_order) {
    const plan::Lane& lane = mine.lanes[ref.lane];
    const plan::Transfer& transfer = lane.transfers[ref.index];
    if (transfer.kind != plan::TransferKind::kAllReduce ||
        transfer.bucket < 0) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "lane %s, transfer %d is not the all-reduce of a bucket", lane.name,
          ref.index));
    }
    item_of_bucket_[transfer.bucket] = items();
    items_.push_back({.bucket = transfer.bucket,
                      .communicator = transfer.communicator,
                      .owned = OwnedRanges(plan_, transfer.bucket, rank_)});
  }
  return absl::OkStatus();
}

std::vector<int> Reduction::PendingByItem() const {
  std::vector<int> pending;
  for (const Item& item : items_) {
    pending.push_back(
        static_cast<int>(plan_.buckets[item.bucket].slots.size()));
  }
  return pending;
}

absl::Status Reduction::LaunchBucket(int item) {
  const Item& it = items_[item];
  const plan::Bucket& bucket = plan_.buckets[it.bucket];
  std::byte* data = store_->BucketData(it.bucket);
  absl::Status status = communicators_[it.communicator]->AllReduce(
      data, data, bucket.total, bucket.dtype, bucket.op, stream_);
  if (!status.ok()) return status;
  stream_.Enqueue([this, &it] { return TakeNorm(it); });
  return absl::OkStatus();
}

absl::Status Reduction::TakeNorm(const Item& item) {
  if (absl::Status status = communicators_[item.communicator]->status();
      !status.ok()) {
    on_failure_(item.communicator, status);
    return status;
  }
  const DType dtype = plan_.buckets[item.bucket].dtype;
  const std::byte* data = store_->BucketData(item.bucket);
  for (const OwnedRange& range : item.owned) {
    const kernels::FiniteCheck check = kernels::CheckFinite(
        data + range.offset * SizeOf(dtype), dtype, range.count);
    norm_squared_ += check.sum_of_squares;
    nonfinite_ += static_cast<int64_t>(check.non_finite);
  }
  return absl::OkStatus();
}

Ballot Reduction::TakeBallot(const FinishOptions& options) {
  return {.norm_squared = std::exchange(norm_squared_, 0),
          .nonfinite = std::exchange(nonfinite_, 0),
          .samples = options.samples,
          .more_data = options.more_data,
          .holds_newest_revision = true};
}

absl::Status Reduction::LaunchVerdict(
    std::shared_ptr<PendingVerdict::State> verdict,
    std::function<StepStamp()> stamp,
    std::function<void(absl::StatusOr<Verdict>)> judge) {
  Communicator& world = *communicators_[0];
  stream_.Enqueue([this, verdict, stamp = std::move(stamp)] {
    verdict->stamp = stamp();
    verdict->vectors = Encode(verdict->stamp, TakeBallot(verdict->options));
    return absl::OkStatus();
  });
  BallotVectors& v = verdict->vectors;
  absl::Status status = world.Group([&]() -> absl::Status {
    absl::Status sum = world.AllReduce(v.sum.data(), v.sum.data(), v.sum.size(),
                                       DType::kF64, ReduceOp::kSum, stream_);
    if (!sum.ok()) return sum;
    return world.AllReduce(v.max.data(), v.max.data(), v.max.size(),
                           DType::kU64, ReduceOp::kMax, stream_);
  });
  stream_.Enqueue([&world, verdict, judge = std::move(judge)] {
    // A transfer that failed has aborted the world, so its status covers all.
    absl::Status reduced = world.status();
    judge(reduced.ok()
              ? Decode(verdict->stamp, world.size(),
                       verdict->options.inverse_scale, verdict->vectors)
              : absl::StatusOr<Verdict>(reduced));
    return reduced;
  });
  return status;
}

void Reduction::Abort(const absl::Status& cause) {
  const std::string message(cause.message());
  for (const auto& communicator : communicators_) {
    if (communicator != nullptr) communicator->Abort(message);
  }
}

}  // namespace lockstep::gradient
