#include "plan/shard.h"

#include <algorithm>

#include "plan/bucket.h"

namespace lockstep::plan {

void PadToSlices(Bucket* bucket, int ranks) {
  const Slot& last = bucket->slots.back();
  const int64_t end = last.offset + last.count;
  const int64_t share = (end + ranks - 1) / ranks;
  bucket->flags_offset = ranks * AlignedOffset(share, bucket->dtype);
  bucket->total =
      bucket->flags_offset + static_cast<int64_t>(bucket->slots.size());
}

Slice SliceOf(const Bucket& bucket, int ranks, int position) {
  if (!HasSlices(bucket)) return {.offset = 0, .count = bucket.flags_offset};
  const int64_t count = bucket.flags_offset / ranks;
  return {.offset = position * count, .count = count};
}

Slice PartIn(const Slot& slot, const Slice& slice) {
  const int64_t begin = std::max(slot.offset, slice.offset);
  const int64_t end =
      std::min(slot.offset + slot.count, slice.offset + slice.count);
  if (begin >= end) return {};
  return {.offset = begin - slot.offset, .count = end - begin};
}

bool GathersParameters(const Plan& plan, const Transfer& transfer) {
  const bool has_bucket =
      transfer.bucket >= 0 &&
      static_cast<size_t>(transfer.bucket) < plan.buckets.size();
  return transfer.kind == TransferKind::kAllGather && has_bucket &&
         plan.buckets[transfer.bucket].sharded;
}

}  // namespace lockstep::plan
