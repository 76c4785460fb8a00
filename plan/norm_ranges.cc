#include "plan/norm_ranges.h"

#include <algorithm>
#include <string>

#include "plan/reduce_slices.h"

namespace lockstep::plan {
namespace {

// One rank that takes part in a bucket.
class NormMember {
 public:
  NormMember(const Plan& plan, const Bucket& bucket, int position)
      : plan_(plan),
        bucket_(bucket),
        members_(plan.communicators[bucket.communicator].ranks),
        position_(position),
        coordinates_(plan.mesh.CoordinatesOf(members_[position])) {}

  bool CountsAll() const {
    return !bucket_.sharded &&
           std::all_of(bucket_.slots.begin(), bucket_.slots.end(),
                       [this](const Slot& slot) { return Counts(slot); });
  }

  Slice OwnSlice() const {
    const int ranks = static_cast<int>(members_.size());
    if (HasSlices(bucket_)) return SliceOf(bucket_, ranks, position_);
    return ReduceSlice(bucket_.total,
                       static_cast<int64_t>(SizeOf(bucket_.dtype)), ranks,
                       position_);
  }

  // All of `slice` at once, up to the flags, or slot by slot.
  std::vector<Slice> CountedIn(const Slice& slice) const {
    std::vector<Slice> ranges;
    const auto add = [&](const Slot& slot) {
      const Slice part = PartIn(slot, slice);
      if (part.count > 0) {
        ranges.push_back({slot.offset + part.offset, part.count});
      }
    };
    if (CountsAll()) {
      add({.offset = 0, .count = bucket_.flags_offset});
      return ranges;
    }
    for (const Slot& slot : bucket_.slots) {
      if (Counts(slot)) add(slot);
    }
    return ranges;
  }

  int leaves() const {
    return bucket_.leaves / static_cast<int>(members_.size());
  }
  int first_leaf() const { return position_ * leaves(); }

 private:
  bool Counts(const Slot& slot) const {
    const std::vector<std::string>& axes =
        plan_.parameters[slot.parameter].replicated_over;
    return std::all_of(axes.begin(), axes.end(), [this](const auto& axis) {
      return coordinates_[plan_.mesh.AxisIndex(axis)] == 0;
    });
  }

  const Plan& plan_;
  const Bucket& bucket_;
  const std::vector<int>& members_;
  const int position_;
  const std::vector<int> coordinates_;
};

}  // namespace

bool CountsWholeSlice(const Plan& plan, const Bucket& bucket, int position) {
  return NormMember(plan, bucket, position).CountsAll();
}

std::vector<Slice> NormRanges(const Plan& plan, const Bucket& bucket,
                              int position) {
  const NormMember member(plan, bucket, position);
  return member.CountedIn(member.OwnSlice());
}

std::vector<LeafNormRanges> NormRangesOfLeaves(const Plan& plan,
                                               const Bucket& bucket,
                                               int position) {
  const NormMember member(plan, bucket, position);
  std::vector<LeafNormRanges> leaves;
  const int end = member.first_leaf() + member.leaves();
  for (int leaf = member.first_leaf(); leaf < end; ++leaf) {
    leaves.push_back({.leaf = leaf,
                      .ranges = member.CountedIn(
                          PairsSlice(bucket.total, bucket.leaves, leaf))});
  }
  return leaves;
}

}  // namespace lockstep::plan
