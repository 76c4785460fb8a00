#include "client/transport/nccl/lowering.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::transport::nccl {
namespace {

const std::byte* At(const void* data, size_t index, DType dtype) {
  return static_cast<const std::byte*>(data) + index * SizeOf(dtype);
}
std::byte* At(void* data, size_t index, DType dtype) {
  return static_cast<std::byte*>(data) + index * SizeOf(dtype);
}

NcclOp OpOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMin: return NcclOp::kMin;
    case ReduceOp::kMax: return NcclOp::kMax;
    case ReduceOp::kProd: return NcclOp::kProd;
    case ReduceOp::kSum:
    case ReduceOp::kMean: break;
  }
  return NcclOp::kSum;
}

bool DropsNaN(const CollectiveOp& call) {
  return IsFloat(call.dtype) &&
         (call.op == ReduceOp::kMin || call.op == ReduceOp::kMax);
}

void Meet(const LoweringPlace& place, Lowering* lowering) {
  lowering->last().steps.push_back({.kind = CollectiveKind::kAllReduce,
                                    .in = place.token,
                                    .out = place.token + 1,
                                    .count = 1});
}

// The NCCL call that corresponds to `call`.
NcclStep Same(const CollectiveOp& call) {
  return {.kind = call.kind,
          .in = call.kind == CollectiveKind::kBroadcast ? call.out : call.in,
          .out = call.out,
          .count = call.count,
          .dtype = ToNccl(call.dtype),
          .op = OpOf(call.op),
          .peer = call.peer};
}

struct PeerBlock {
  size_t in_at, in_count, out_at, out_count;
};

PeerBlock BlockOf(const CollectiveOp& call, int peer) {
  if (call.kind != CollectiveKind::kAllToAllV) {
    return {peer * call.count, call.count, peer * call.count, call.count};
  }
  return {call.in_offsets[peer], call.in_counts[peer], call.out_offsets[peer],
          call.out_counts[peer]};
}

void Exchange(const CollectiveOp& call, const LoweringPlace& place,
              Lowering* lowering) {
  const size_t before = lowering->last().steps.size();
  for (int peer = 0; peer < place.size; ++peer) {
    const PeerBlock block = BlockOf(call, peer);
    if (block.in_count > 0) {
      lowering->last().steps.push_back(
          {.kind = CollectiveKind::kSend,
           .in = At(call.in, block.in_at, call.dtype),
           .count = block.in_count,
           .dtype = ToNccl(call.dtype),
           .peer = peer});
    }
    if (block.out_count > 0) {
      lowering->last().steps.push_back(
          {.kind = CollectiveKind::kRecv,
           .out = At(call.out, block.out_at, call.dtype),
           .count = block.out_count,
           .dtype = ToNccl(call.dtype),
           .peer = peer});
    }
  }
  // A rank without data to send or receive is not synchronized with any peer,
  // except in kAllToAll, where this holds for all ranks.
  if (lowering->last().steps.size() == before &&
      call.kind == CollectiveKind::kAllToAll) {
    Meet(place, lowering);
  }
}

// Gathers elements [begin, begin + count) of this rank's part from all ranks,
// one row after the other.
void Gather(const CollectiveOp& call, size_t begin, size_t count, void* rows,
            const LoweringPlace& place, Lowering* lowering) {
  CollectiveOp gather = call;
  gather.out = rows;
  if (call.kind == CollectiveKind::kAllReduce) {
    gather.kind = CollectiveKind::kAllGather;
    gather.in = At(call.in, begin, call.dtype);
    gather.count = count;
    lowering->last().steps.push_back(Same(gather));
    return;
  }
  gather.kind = CollectiveKind::kAllToAllV;
  for (int peer = 0; peer < place.size; ++peer) {
    gather.in_offsets.push_back(peer * call.count + begin);
    gather.out_offsets.push_back(peer * count);
  }
  gather.in_counts.assign(place.size, count);
  gather.out_counts.assign(place.size, count);
  Exchange(gather, place, lowering);
}

// Gathers all ranks' inputs of this rank's part, then reduces them by a kernel;
// in rounds that fit the memory.
void ReduceByKernel(const CollectiveOp& call, const LoweringPlace& place,
                    Lowering* lowering) {
  const size_t row = SizeOf(call.dtype) * place.size;
  const size_t fit = std::max<size_t>(1, place.rows_bytes_max / row);
  const size_t most =
      place.rows_bytes_max == 0 ? call.count : std::min(call.count, fit);
  void* const rows = place.temporary(most * row);
  for (size_t begin = 0; begin < call.count; begin += most) {
    const size_t count = std::min(most, call.count - begin);
    if (begin > 0) lowering->rounds.emplace_back();
    Gather(call, begin, count, rows, place, lowering);
    lowering->last().reduces.push_back({.inputs = rows,
                                        .out = At(call.out, begin, call.dtype),
                                        .count = count,
                                        .dtype = call.dtype,
                                        .op = call.op});
  }
}

void Reduce(const CollectiveOp& call, const LoweringPlace& place,
            Lowering* lowering) {
  if (DropsNaN(call)) return ReduceByKernel(call, place, lowering);
  lowering->last().steps.push_back(Same(call));
  if (call.op != ReduceOp::kMean) return;
  lowering->last().scales.push_back({.data = call.out,
                                     .dtype = call.dtype,
                                     .factor = 1.0 / call.DivisorOf(place.size),
                                     .count = call.count});
}

void PointToPoint(const CollectiveOp& call, const LoweringPlace& place,
                  Lowering* lowering) {
  NcclStep step = Same(call);
  if (call.count == 0) {
    step.in = place.token;
    step.out = place.token + 1;
    step.count = 1;
    step.dtype = NcclDType::kUint8;
  }
  lowering->last().steps.push_back(step);
}

}  // namespace

NcclDType ToNccl(DType dtype) {
  switch (dtype) {
    case DType::kU8: return NcclDType::kUint8;
    case DType::kI8: return NcclDType::kInt8;
    case DType::kI32: return NcclDType::kInt32;
    case DType::kU32: return NcclDType::kUint32;
    case DType::kI64: return NcclDType::kInt64;
    case DType::kU64: return NcclDType::kUint64;
    case DType::kF16: return NcclDType::kFloat16;
    case DType::kBF16: return NcclDType::kBfloat16;
    case DType::kF32: return NcclDType::kFloat32;
    case DType::kF64: return NcclDType::kFloat64;
    default: Fatal("no communicator takes this dtype");  // CheckOp
  }
}

void Lower(const CollectiveOp& call, const LoweringPlace& place,
           Lowering* lowering) {
  if (call.is_point_to_point()) return PointToPoint(call, place, lowering);
  if (call.kind == CollectiveKind::kAllToAllV) {
    return Exchange(call, place, lowering);
  }
  if (call.count == 0) return Meet(place, lowering);
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduceScatter: return Reduce(call, place, lowering);
    case CollectiveKind::kAllToAll: return Exchange(call, place, lowering);
    default: lowering->last().steps.push_back(Same(call));
  }
}

}  // namespace lockstep::transport::nccl
