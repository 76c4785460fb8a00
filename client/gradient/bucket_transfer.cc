#include "client/gradient/bucket_transfer.h"

#include <utility>

#include "client/transport/checked_all_reduce.h"

namespace lockstep::gradient {

absl::Status EnqueueSumInPairs(Communicator& communicator,
                               const plan::Bucket& bucket, std::byte* sums,
                               Checks checks, Stream& stream) {
  const bool mean = bucket.op == ReduceOp::kMean;
  const double factor = mean ? 1.0 / bucket.leaves : 1.0;
  const DType dtype = SumTypeOf(bucket);
  if (checks.empty()) {
    return communicator.AllReducePairs(sums, sums, bucket.total, dtype, factor,
                                       stream);
  }
  return transport::CheckedAllReducePairs(communicator, sums, bucket.total,
                                          dtype, factor, std::move(checks),
                                          stream);
}

absl::Status EnqueueExchange(Communicator& communicator,
                             const plan::Bucket& bucket, const std::byte* sums,
                             std::byte* slices, Stream& stream) {
  return communicator.AllToAll(sums, slices,
                               bucket.flags_offset / communicator.size(),
                               SumTypeOf(bucket), stream);
}

absl::Status EnqueueReduction(Communicator& communicator,
                              const plan::Bucket& bucket,
                              const plan::Slice& slice, std::byte* wire,
                              Checks checks, Stream& stream) {
  const DType dtype = WireOf(bucket);
  if (!checks.empty()) {
    return transport::CheckedAllReduce(communicator, wire, bucket.total, dtype,
                                       bucket.op, std::move(checks), stream);
  }
  if (!HasSlices(bucket)) {
    return communicator.AllReduce(wire, wire, bucket.total, dtype, bucket.op,
                                  stream);
  }
  return communicator.Group([&]() -> absl::Status {
    std::byte* const mine = wire + slice.offset * SizeOf(dtype);
    absl::Status moved =
        bucket.sharded
            ? communicator.ReduceScatter(wire, mine, slice.count, dtype,
                                         bucket.op, stream)
            : communicator.AllGather(mine, wire, slice.count, dtype, stream);
    if (!moved.ok()) return moved;
    std::byte* const flags = wire + bucket.flags_offset * SizeOf(dtype);
    return communicator.AllReduce(flags, flags, bucket.slots.size(), dtype,
                                  bucket.op, stream);
  });
}

absl::Status EnqueueGather(Communicator& communicator,
                           const plan::Bucket& bucket, const plan::Slice& slice,
                           std::byte* parameters, Stream& stream) {
  return communicator.AllGather(
      parameters + slice.offset * SizeOf(bucket.dtype), parameters, slice.count,
      bucket.dtype, stream);
}

}  // namespace lockstep::gradient
