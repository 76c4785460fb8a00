#include "client/gradient/layout.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "client/gradient/parameter_store.h"
#include "client/transport/extended_collectives.h"

namespace lockstep::gradient {
namespace {

// Maps the rank's parameters to indices of plan.parameters: by name, among the
// buckets that this rank is a member of.
absl::StatusOr<std::vector<int>> FindParameters(
    const plan::Plan& plan, int rank, const std::vector<std::string>& names) {
  absl::flat_hash_map<absl::string_view, int> index;
  for (const plan::Bucket& bucket : plan.buckets) {
    const std::vector<int>& members =
        plan.communicators[bucket.communicator].ranks;
    if (std::find(members.begin(), members.end(), rank) == members.end())
      continue;
    for (const plan::Slot& slot : bucket.slots) {
      index[plan.parameters[slot.parameter].name] = slot.parameter;
    }
  }
  std::vector<int> found;
  for (const std::string& name : names) {
    const auto it = index.find(name);
    if (it == index.end()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "the plan has no bucket on rank %d for parameter %s", rank, name));
    }
    found.push_back(it->second);
  }
  return found;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Layout>> Layout::Create(
    std::shared_ptr<const plan::Plan> plan, int rank,
    const std::vector<std::string>& names, transport::DeviceContext* compute,
    absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate) {
  std::unique_ptr<Layout> layout(new Layout(std::move(plan), rank));
  absl::StatusOr<std::vector<int>> parameters =
      FindParameters(*layout->plan_, rank, names);
  if (!parameters.ok()) return parameters.status();
  layout->parameters_ = *std::move(parameters);
  absl::StatusOr<BucketStore> store = BucketStore::Create(
      *layout->plan_, rank, layout->parameters_, compute, allocate);
  if (!store.ok()) return store.status();
  layout->store_ = *std::move(store);
  absl::Status found = layout->FindTransfers();
  if (found.ok()) found = layout->CollectNorms(compute);
  if (!found.ok()) return found;
  return layout;
}

absl::Status Layout::FindTransfers() {
  first_of_bucket_.resize(plan_->buckets.size());
  last_of_bucket_.resize(plan_->buckets.size());
  const plan::RankPlan& mine = plan_->ranks[rank_];
  for (plan::TransferRef ref : mine.launch_order) {
    const plan::Lane& lane = mine.lanes[ref.lane];
    const plan::Transfer& transfer = lane.transfers[ref.index];
    if (lane.kind == plan::LaneKind::kVerdict && verdict_.lane < 0) {
      verdict_ = ref;
    }
    if (lane.kind != plan::LaneKind::kGradient) continue;
    if (transfer.bucket < 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("lane %s, transfer %d is not a bucket's: %s",
                          lane.name, ref.index, Describe(transfer)));
    }
    if (plan::GathersParameters(*plan_, transfer)) {
      gathers_.push_back({transfer.bucket, transfer.communicator, ref,
                          SliceOf(transfer.bucket)});
    } else {
      last_of_bucket_[transfer.bucket] = &transfer;
      if (first_of_bucket_[transfer.bucket].lane < 0) {
        first_of_bucket_[transfer.bucket] = ref;
      }
    }
  }
  if (verdict_.lane >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("the plan has no verdict on rank %d", rank_));
}

absl::Status Layout::CollectNorms(transport::DeviceContext* compute) {
  for (const plan::Lane& lane : plan_->ranks[rank_].lanes) {
    for (const plan::Transfer& transfer : lane.transfers) {
      for (const plan::LocalOp& op : transfer.then) {
        if (op.kind != plan::LocalKind::kNorm) continue;
        std::vector<Norm>& norms = norms_[&transfer];
        if (norms.empty() || norms.back().leaf != op.leaf) {
          norms.push_back({.leaf = op.leaf});
        }
        norms.back().ranges.push_back({.offset = static_cast<size_t>(op.offset),
                                       .count = static_cast<size_t>(op.count)});
      }
    }
  }
  for (auto& [transfer, norms] : norms_) {
    for (Norm& norm : norms) {
      absl::StatusOr<ArenaBuffer> scratch =
          compute->AllocateScratch(norm.ranges);
      if (!scratch.ok()) return scratch.status();
      norm.scratch = *std::move(scratch);
    }
  }
  return absl::OkStatus();
}

plan::Slice Layout::SliceOf(int b) const {
  const plan::Bucket& bucket = plan_->buckets[b];
  const std::vector<int>& members =
      plan_->communicators[bucket.communicator].ranks;
  const auto at = std::find(members.begin(), members.end(), rank_);
  return plan::SliceOf(bucket, static_cast<int>(members.size()),
                       static_cast<int>(at - members.begin()));
}

bool Layout::FollowsOthers(int parameter) const {
  return program_->At(program_->UnitOf(TransferOf(parameter))).named > 0;
}

// --- The program ------------------------------------------------------------

absl::Status Layout::MakeProgram(Surroundings surroundings) {
  using executor::LaneRun;
  around_ = std::move(surroundings);
  const auto run_of = [this](const plan::Lane& lane) {
    switch (lane.kind) {
      case plan::LaneKind::kGradient:
        return around_.is_decided ? LaneRun::kDecided : LaneRun::kQueued;
      case plan::LaneKind::kVerdict: return LaneRun::kQueued;
      case plan::LaneKind::kHalo: return LaneRun::kNone;  // HaloExchange
      default: return LaneRun::kStream;
    }
  };
  absl::StatusOr<std::unique_ptr<executor::Program>> program =
      executor::Program::Create(
          plan_, rank_,
          {.run_of = run_of,
           .pending_of =
               [this](const plan::Lane& lane, const plan::Transfer& transfer) {
                 return PendingOf(lane, transfer);
               },
           .owner_of = [this](const plan::Lane& lane) -> executor::LaneOwner* {
             if (lane.kind == plan::LaneKind::kVerdict) return around_.verdict;
             return this;
           },
           .communicator =
               [this](int c) { return around_.executor->communicator(c); },
           .one_order = around_.executor->compute().NeedsOneOrder()});
  if (!program.ok()) return program.status();
  program_ = *std::move(program);
  return absl::OkStatus();
}

// The owner of a lane with its own stream marks it ready; a pipeline lane, once
// for each task that a message follows.
int Layout::PendingOf(const plan::Lane& lane,
                      const plan::Transfer& transfer) const {
  const auto is = [&](plan::TransferRef ref) {
    return ref.lane >= 0 &&
           &plan_->ranks[rank_].lanes[ref.lane].transfers[ref.index] ==
               &transfer;
  };
  switch (lane.kind) {
    case plan::LaneKind::kVerdict: return is(verdict_) ? 1 : 0;
    case plan::LaneKind::kPipeline: return transfer.after_task >= 0 ? 1 : 0;
    case plan::LaneKind::kHalo:
    case plan::LaneKind::kState: return 1;
    case plan::LaneKind::kGradient: break;
  }
  if (plan::GathersParameters(*plan_, transfer)) return 1;
  if (!is(first_of_bucket_[transfer.bucket])) return 0;
  return around_.is_decided
             ? 1
             : static_cast<int>(bucket(transfer.bucket).slots.size());
}

// --- As owner of the gradient lane ------------------------------------------

executor::Operands Layout::OperandsOf(plan::TransferRef,
                                      const plan::Transfer& transfer) {
  using plan::TransferKind;
  const int b = transfer.bucket;
  const plan::Slice slice = SliceOf(b);
  if (plan::GathersParameters(*plan_, transfer)) {
    std::byte* const values = around_.values->BucketData(b);
    return {values + slice.offset * SizeOf(bucket(b).dtype), values};
  }
  if (transfer.kind == TransferKind::kAllToAll) {
    return {store_.sums(b).sum(), store_.sums(b).slices()};
  }
  const auto& [wire, dtype] = store_.OnWire(b);
  std::byte* const mine = wire + slice.offset * SizeOf(dtype);
  std::byte* const flags = wire + bucket(b).flags_offset * SizeOf(dtype);
  switch (transfer.kind) {
    case TransferKind::kReduceScatter: return {wire, mine};
    case TransferKind::kAllGather: return {mine, wire};
    default: break;
  }
  const bool is_whole = CountOf(transfer) == bucket(b).total;
  return is_whole ? executor::Operands{wire, wire}
                  : executor::Operands{flags, flags};
}

int Layout::DivisorOf(const plan::Transfer& transfer) {
  const bool is_decided = transfer.kind == plan::TransferKind::kAllReduce &&
                          transfer.op == ReduceOp::kMean &&
                          bucket(transfer.bucket).announced;
  return is_decided ? store_.announcers(transfer.bucket) : 0;
}

std::vector<transport::CheckedPart> Layout::ChecksOf(
    const plan::Transfer& transfer) {
  const auto norms = norms_.find(&transfer);
  const bool reduces_whole =
      transfer.kind == plan::TransferKind::kAllReduce ||
      transfer.kind == plan::TransferKind::kAllReducePairs;
  // A transfer cannot check a sum that a later operation changes.
  const bool is_the_result = transfer.dtype == bucket(transfer.bucket).dtype &&
                             !bucket(transfer.bucket).announced;
  if (norms == norms_.end() || !reduces_whole || !is_the_result ||
      !transport::CanCheck(
          *around_.executor->communicator(transfer.communicator))) {
    return {};
  }
  std::vector<transport::CheckedPart> checks;
  for (const Norm& norm : norms->second) {
    // One range only: a transfer cannot skip the padding between slots.
    if (norm.ranges.size() > 1) return {};
    checks.push_back({{norm.ranges[0].offset, norm.ranges[0].count},
                      around_.norm(norm.leaf)});
  }
  return checks;
}

// Nothing but the norm reads the gradients behind the transfer, and before the
// verdict.
bool Layout::ScalesMean(const plan::Transfer& transfer) {
  using plan::TransferKind;
  const auto norms = norms_.find(&transfer);
  const bool reduces = transfer.kind == TransferKind::kAllReduce ||
                       transfer.kind == TransferKind::kReduceScatter;
  const bool only_norms = std::all_of(
      transfer.then.begin(), transfer.then.end(), [](const plan::LocalOp& op) {
        return op.kind == plan::LocalKind::kReadFlags ||
               op.kind == plan::LocalKind::kNorm;
      });
  return reduces && transfer.op == ReduceOp::kMean && only_norms &&
         norms != norms_.end() && norms->second.size() == 1 &&
         transport::ScalesInOwnPass(
             *around_.executor->communicator(transfer.communicator));
}

absl::Status Layout::Apply(KernelQueue& kernel_queue,
                           const plan::Transfer& transfer, executor::Side side,
                           bool has_norms) {
  const bool is_before = side == executor::Side::kBefore;
  bool is_back = false;
  bool counted = has_norms;
  for (const plan::LocalOp& op : is_before ? transfer.before : transfer.then) {
    if (op.kind == plan::LocalKind::kNorm) {
      if (!std::exchange(counted, true)) AddNorms(kernel_queue, transfer);
      continue;
    }
    absl::Status applied =
        store_.Apply(kernel_queue, transfer.bucket, op, side, is_back);
    if (!applied.ok()) return applied;
    is_back |= op.kind == plan::LocalKind::kCast;
  }
  const bool has_gathered =
      !is_before && plan::GathersParameters(*plan_, transfer);
  if (has_gathered) {
    around_.values->Arrived(transfer.bucket, gather_, kernel_queue.Done());
  }
  const bool is_reduced =
      !is_before && last_of_bucket_[transfer.bucket] == &transfer;
  if (is_reduced && may_keep_ != nullptr) {
    store_.KeepCopy(kernel_queue, transfer.bucket, may_keep_);
  }
  return kernel_queue.status();
}

// Adds all norms of the transfer at once; they are adjacent in the plan.
void Layout::AddNorms(KernelQueue& kernel_queue,
                      const plan::Transfer& transfer) {
  if (ScalesMean(transfer)) return ScaleAndAddNorm(kernel_queue, transfer);
  for (const Norm& norm : norms_.at(&transfer)) {
    kernel_queue.AddFiniteCheck(store_.BucketData(transfer.bucket),
                                bucket(transfer.bucket).dtype, norm.ranges,
                                norm.scratch.data(), around_.norm(norm.leaf));
  }
}

void Layout::ScaleAndAddNorm(KernelQueue& kernel_queue,
                             const plan::Transfer& transfer) {
  const Norm& norm = norms_.at(&transfer)[0];
  const size_t ranks = plan_->communicators[transfer.communicator].ranks.size();
  kernel_queue.ScaleAndCheck(
      store_.BucketData(transfer.bucket), bucket(transfer.bucket).dtype,
      1.0 / static_cast<double>(ranks), ResultOf(transfer), norm.ranges,
      norm.scratch.data(), around_.norm(norm.leaf));
}

kernels::ElementRange Layout::ResultOf(const plan::Transfer& transfer) const {
  if (transfer.kind == plan::TransferKind::kReduceScatter) {
    const plan::Slice slice = SliceOf(transfer.bucket);
    return {static_cast<size_t>(slice.offset),
            static_cast<size_t>(slice.count)};
  }
  return {0, static_cast<size_t>(CountOf(transfer))};
}

}  // namespace lockstep::gradient
