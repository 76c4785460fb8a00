#include "client/gradient/layout.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "client/executor/launched_transfers.h"
#include "plan/norm_ranges.h"
#include "plan/pipeline/stages.h"

namespace lockstep::gradient {
namespace {

std::vector<kernels::ElementRange> Ranges(
    const std::vector<plan::Slice>& owned) {
  std::vector<kernels::ElementRange> ranges;
  for (const plan::Slice& range : owned) {
    ranges.push_back({.offset = static_cast<size_t>(range.offset),
                      .count = static_cast<size_t>(range.count)});
  }
  return ranges;
}

// The rank's parameters as indices of plan.parameters: the one of that name
// whose bucket this rank takes part in.
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
    plan::Plan plan, int rank, const std::vector<std::string>& names,
    transport::Compute* compute,
    absl::FunctionRef<absl::StatusOr<ArenaBuffer>(size_t)> allocate,
    const std::vector<bool>& sums_in_pairs) {
  std::unique_ptr<Layout> layout(new Layout(std::move(plan)));
  absl::StatusOr<std::vector<int>> parameters =
      FindParameters(layout->plan_, rank, names);
  if (!parameters.ok()) return parameters.status();
  layout->parameters_ = *std::move(parameters);
  absl::StatusOr<BucketStore> store = BucketStore::Create(
      layout->plan_, layout->parameters_, compute, allocate, sums_in_pairs);
  if (!store.ok()) return store.status();
  layout->store_ = *std::move(store);
  absl::Status laid_out = layout->LayOutLaunches(rank, compute);
  if (!laid_out.ok()) return laid_out;
  return layout;
}

absl::Status Layout::LayOutLaunches(int rank, transport::Compute* compute) {
  item_of_bucket_.assign(plan_.buckets.size(), -1);
  const plan::RankPlan& mine = plan_.ranks[rank];
  for (const plan::TransferRef& ref : mine.launch_order) {
    const plan::Lane& lane = mine.lanes[ref.lane];
    // The pipeline's own executor runs its lanes, Reduction the verdict's.
    if (lane.kind == plan::LaneKind::kPipeline ||
        lane.kind == plan::LaneKind::kVerdict) {
      continue;
    }
    const plan::Transfer& transfer = lane.transfers[ref.index];
    if (transfer.bucket >= 0 && LayOut(ref.lane, transfer, rank)) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("lane %s, transfer %d is not a bucket's: %s", lane.name,
                        ref.index, Describe(transfer)));
  }
  for (Item& item : items_) {
    absl::StatusOr<ArenaBuffer> scratch = compute->AllocateScratch(item.owned);
    if (!scratch.ok()) return scratch.status();
    item.scratch = *std::move(scratch);
    for (OwnedPart& part : item.of_leaves) {
      scratch = compute->AllocateScratch(part.ranges);
      if (!scratch.ok()) return scratch.status();
      part.scratch = *std::move(scratch);
    }
  }
  return absl::OkStatus();
}

int Layout::LastItemOfStage(int stage) const {
  int last = -1;
  for (size_t item = 0; item < items_.size(); ++item) {
    const bool is_its = StageOf(plan_, bucket(items_[item].bucket)) == stage;
    if (is_its) last = static_cast<int>(item);
  }
  return last;
}

bool Layout::LayOut(int lane, const plan::Transfer& transfer, int rank) {
  using plan::TransferKind;
  const int b = transfer.bucket;
  const plan::Bucket& bucket = plan_.buckets[b];
  const plan::Slice slice = SliceOn(b, rank);
  const std::vector<plan::TransferRef> before =
      executor::BeforeInOtherLanes(lane, transfer);
  if (plan::GathersParameters(plan_, transfer)) {
    if (!before.empty()) return false;  // it begins the step
    gathers_.push_back({b, transfer.communicator, &transfer, slice});
    return true;
  }
  const TransferKind first = bucket.leaves > 0 ? TransferKind::kAllToAll
                             : bucket.sharded  ? TransferKind::kReduceScatter
                                               : TransferKind::kAllReduce;
  const bool in_pairs =
      bucket.leaves > 0 && transfer.kind == TransferKind::kAllReducePairs;
  if (transfer.kind != first && !in_pairs) {
    // The rest of a reduction, flags among it, follows where it began.
    if (!HasSlices(bucket) || items_.empty() || items_.back().bucket != b) {
      return false;
    }
    items_.back().transfers.push_back(Planned(items_.back(), transfer));
    items_.back().before.insert(items_.back().before.end(), before.begin(),
                                before.end());
    return true;
  }
  item_of_bucket_[b] = static_cast<int>(items_.size());
  Item& item = items_.emplace_back();
  item.bucket = b;
  item.communicator = transfer.communicator;
  item.before = before;
  item.slice = slice;
  if (bucket.leaves > 0) {
    item.exchange = Planned(item, transfer);
  } else {
    item.transfers.push_back(Planned(item, transfer));
  }
  const int position = PositionIn(b, rank);
  const std::vector<bool> counted = CountedParameters(plan_);
  item.owns_slice = CountsWholeSlice(bucket, counted);
  if (bucket.leaves == 0) {
    item.owned = Ranges(NormRanges(plan_, bucket, position, counted));
    return true;
  }
  for (const plan::LeafNormRanges& owned :
       NormRangesOfLeaves(plan_, bucket, position, counted)) {
    OwnedPart& part = item.of_leaves.emplace_back();
    part.leaf = owned.leaf;
    part.ranges = Ranges(owned.ranges);
  }
  return true;
}

int Layout::PositionIn(int b, int rank) const {
  const std::vector<int>& members =
      plan_.communicators[bucket(b).communicator].ranks;
  return static_cast<int>(std::find(members.begin(), members.end(), rank) -
                          members.begin());
}

plan::Slice Layout::SliceOn(int b, int rank) const {
  const size_t members =
      plan_.communicators[bucket(b).communicator].ranks.size();
  return plan::SliceOf(bucket(b), static_cast<int>(members),
                       PositionIn(b, rank));
}

executor::PlannedTransfer Layout::Planned(
    const Item& item, const plan::Transfer& transfer) const {
  using plan::TransferKind;
  if (transfer.kind == TransferKind::kAllToAll) {
    const LeafSums& sums = store_.sums(item.bucket);
    return {&transfer, {sums.sum(), sums.slices()}};
  }
  const auto& [wire, dtype] = store_.OnWire(item.bucket);
  std::byte* const mine = wire + item.slice.offset * SizeOf(dtype);
  std::byte* const flags =
      wire + bucket(item.bucket).flags_offset * SizeOf(dtype);
  switch (transfer.kind) {
    case TransferKind::kReduceScatter: return {&transfer, {wire, mine}};
    case TransferKind::kAllGather: return {&transfer, {mine, wire}};
    default:
      return HasSlices(bucket(item.bucket))
                 ? executor::PlannedTransfer{&transfer, {flags, flags}}
                 : executor::PlannedTransfer{&transfer, {wire, wire}};
  }
}

std::vector<int> Layout::PendingByItem() const {
  std::vector<int> pending;
  for (const Item& item : items_) {
    pending.push_back(static_cast<int>(bucket(item.bucket).slots.size()));
  }
  return pending;
}

}  // namespace lockstep::gradient
