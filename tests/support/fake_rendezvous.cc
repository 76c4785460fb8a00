// The effect of NCCL's operations on buffers, computed by the host references.

#include <algorithm>
#include <cstring>

#include "kernels/reduce.h"
#include "tests/support/fake_nccl.h"
#include "tests/support/recycled_memory.h"

namespace lockstep::fake {
namespace {

using transport::CollectiveKind;
using transport::nccl::NcclDType;
using transport::nccl::NcclOp;

DType FromNccl(NcclDType dtype) {
  switch (dtype) {
    case NcclDType::kInt8: return DType::kI8;
    case NcclDType::kUint8: return DType::kU8;
    case NcclDType::kInt32: return DType::kI32;
    case NcclDType::kUint32: return DType::kU32;
    case NcclDType::kInt64: return DType::kI64;
    case NcclDType::kUint64: return DType::kU64;
    case NcclDType::kFloat16: return DType::kF16;
    case NcclDType::kFloat32: return DType::kF32;
    case NcclDType::kFloat64: return DType::kF64;
    case NcclDType::kBfloat16: return DType::kBF16;
  }
  return DType::kU8;
}

ReduceOp FromNccl(NcclOp op) {
  switch (op) {
    case NcclOp::kSum: return ReduceOp::kSum;
    case NcclOp::kProd: return ReduceOp::kProd;
    case NcclOp::kMax: return ReduceOp::kMax;
    case NcclOp::kMin: return ReduceOp::kMin;
  }
  return ReduceOp::kSum;
}

size_t BytesOf(const Part& part) {
  return part.count * SizeOf(FromNccl(part.dtype));
}

const std::byte* At(const void* data, size_t bytes) {
  return static_cast<const std::byte*>(data) + bytes;
}

// Elements [begin, begin + count) of all ranks' inputs, reduced.
TestBuffer Reduced(const Rendezvous& rendezvous, size_t begin, size_t count) {
  const Part& any = rendezvous.come.begin()->second;
  const DType dtype = FromNccl(any.dtype);
  TestBuffer elsewhere;
  std::vector<const void*> inputs;
  for (const auto& [rank, part] : rendezvous.come) {
    if (part.read_elsewhere && elsewhere.size() == 0) {
      elsewhere = TestBuffer(count * SizeOf(dtype));
      std::memset(elsewhere.data(), 0xff, elsewhere.size());
    }
    inputs.push_back(part.read_elsewhere ? elsewhere.data()
                                         : At(part.in, begin * SizeOf(dtype)));
  }
  TestBuffer out(count * SizeOf(dtype));
  kernels::ReduceRanks(inputs, out.data(), count, dtype, FromNccl(any.op));
  return out;
}

void AllReduce(const Rendezvous& rendezvous) {
  const auto result =
      Reduced(rendezvous, 0, rendezvous.come.begin()->second.count);
  for (const auto& [rank, part] : rendezvous.come) {
    std::memcpy(part.out, result.data(), result.size());
  }
}

void ReduceScatter(const Rendezvous& rendezvous) {
  std::map<int, TestBuffer> results;  // in place: all, then write
  for (const auto& [rank, part] : rendezvous.come) {
    results[rank] = Reduced(rendezvous, rank * part.count, part.count);
  }
  for (const auto& [rank, part] : rendezvous.come) {
    std::memcpy(part.out, results[rank].data(), results[rank].size());
  }
}

void AllGather(const Rendezvous& rendezvous) {
  for (const auto& [to, receiver] : rendezvous.come) {
    for (const auto& [from, sender] : rendezvous.come) {
      const size_t bytes = BytesOf(sender);
      std::memmove(static_cast<std::byte*>(receiver.out) + from * bytes,
                   sender.in, bytes);
    }
  }
}

void Broadcast(const Rendezvous& rendezvous) {
  const Part& root = rendezvous.come.at(rendezvous.come.begin()->second.peer);
  for (const auto& [rank, part] : rendezvous.come) {
    std::memmove(part.out, root.in, BytesOf(root));
  }
}

// A rank's message to itself is a rendezvous of one rank with both sides.
void Message(const Rendezvous& rendezvous) {
  const Part* send = nullptr;
  const Part* recv = nullptr;
  for (const auto& [side, part] : rendezvous.come) {
    (part.kind == CollectiveKind::kSend ? send : recv) = &part;
  }
  std::memmove(recv->out, send->in, std::min(BytesOf(*send), BytesOf(*recv)));
}

}  // namespace

size_t InBytes(const Part& part) { return BytesOf(part); }

size_t OutBytes(const Part& part, int size) {
  if (part.kind == CollectiveKind::kSend) return 0;
  return BytesOf(part) * (part.kind == CollectiveKind::kAllGather ? size : 1);
}

void Execute(const Rendezvous& rendezvous) {
  switch (rendezvous.come.begin()->second.kind) {
    case CollectiveKind::kAllReduce: return AllReduce(rendezvous);
    case CollectiveKind::kReduceScatter: return ReduceScatter(rendezvous);
    case CollectiveKind::kAllGather: return AllGather(rendezvous);
    case CollectiveKind::kBroadcast: return Broadcast(rendezvous);
    default: return Message(rendezvous);
  }
}

}  // namespace lockstep::fake
