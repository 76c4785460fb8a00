#include "client/gradient/reduction.h"

#include <cstring>
#include <string>
#include <utility>

#include "kernels/cast_scale.h"
#include "kernels/finite_check.h"

namespace lockstep::gradient {

Reduction::Reduction(std::vector<std::unique_ptr<Communicator>> communicators,
                     std::function<void(int, const absl::Status&)> on_failure)
    : communicators_(std::move(communicators)),
      on_failure_(std::move(on_failure)) {}

absl::Status Reduction::LaunchBucket(Layout& layout, int item) {
  const Layout::Item& it = layout.items()[item];
  const plan::Bucket& bucket = layout.bucket(it.bucket);
  std::byte* data = layout.store().BucketData(it.bucket);
  absl::Status status = communicators_[it.communicator]->AllReduce(
      data, data, bucket.total, bucket.dtype, bucket.op, stream_);
  if (!status.ok()) return status;
  stream_.Enqueue([this, &layout, &it] { return TakeNorm(layout, it); });
  return absl::OkStatus();
}

absl::Status Reduction::LaunchShared(Layout& layout, int item,
                                     const Share& share) {
  const Layout::Item& it = layout.items()[item];
  const plan::Bucket& bucket = layout.bucket(it.bucket);
  Communicator& communicator = *communicators_[it.communicator];
  const bool some_only = share.announcers < communicator.size();
  const bool rescales = bucket.op == ReduceOp::kMean && some_only;
  const bool by_sum =
      rescales && (bucket.dtype == DType::kF32 || bucket.dtype == DType::kF64);
  const double factor = (by_sum ? 1.0 : communicator.size()) / share.announcers;

  std::byte* data = layout.store().BucketData(it.bucket);
  if (!share.gives) {
    stream_.Enqueue([data, bytes = bucket.total * SizeOf(bucket.dtype)] {
      std::memset(data, 0, bytes);
      return absl::OkStatus();
    });
  }
  absl::Status status =
      communicator.AllReduce(data, data, bucket.total, bucket.dtype,
                             by_sum ? ReduceOp::kSum : bucket.op, stream_);
  if (!status.ok()) return status;
  stream_.Enqueue([this, &layout, &it, rescales, factor, share] {
    if (rescales) Rescale(layout, it.bucket, factor);
    absl::Status taken = TakeNorm(layout, it);
    // The flag stays: it says that others gave a gradient.
    const plan::Bucket& bucket = layout.bucket(it.bucket);
    if (!share.gives) {
      std::memset(layout.store().BucketData(it.bucket), 0,
                  bucket.flags_offset * SizeOf(bucket.dtype));
    }
    return taken;
  });
  return absl::OkStatus();
}

void Reduction::Rescale(Layout& layout, int bucket, double factor) {
  const plan::Bucket& of = layout.bucket(bucket);
  std::byte* data = layout.store().BucketData(bucket);
  kernels::Scale(data, of.dtype, factor, of.slots[0].count);
}

void Reduction::Run(absl::AnyInvocable<void()> work) {
  stream_.Enqueue([work = std::move(work)]() mutable {
    work();
    return absl::OkStatus();
  });
}

absl::Status Reduction::TakeNorm(const Layout& layout,
                                 const Layout::Item& item) {
  if (absl::Status status = communicators_[item.communicator]->status();
      !status.ok()) {
    on_failure_(item.communicator, status);
    return status;
  }
  const DType dtype = layout.bucket(item.bucket).dtype;
  const std::byte* data = layout.store().BucketData(item.bucket);
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
          .per_sample = options.per_sample};
}

absl::Status Reduction::LaunchVerdict(
    std::shared_ptr<PendingVerdict::State> verdict,
    std::function<StepStamp(Ballot*)> enter,
    std::function<void(absl::StatusOr<Verdict>)> judge) {
  Communicator& world = *communicators_[0];
  stream_.Enqueue([this, verdict, enter = std::move(enter)] {
    Ballot ballot = TakeBallot(verdict->options);
    verdict->stamp = enter(&ballot);
    verdict->vectors = Encode(verdict->stamp, ballot);
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
