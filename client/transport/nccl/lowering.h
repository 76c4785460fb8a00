// From a Communicator's calls to NCCL's: what is enqueued as one NCCL group,
// and which kernels follow it. Mostly that is one round; a call that needs more
// memory than there is goes in several, one behind the other:
//
//   [gather][reduce] [gather][reduce] [gather][reduce]     min of floats
//
//   AllReduce mean           all-reduce sum, then a multiply: NCCL's own
//                            average rounds differently
//   min, max of floats       gathered, then reduced by a kernel: NCCL's are
//                            fminf and fmaxf, which drop a NaN; in rounds, if
//                            the rows do not fit into `rows` and the call is
//                            alone
//   AllToAll, AllToAllV      sends and receives, to itself too
//   Barrier, nothing to move one byte: NCCL does not meet for no elements
//
// A pure function, but for the memory it asks for.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_LOWERING_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_LOWERING_H_

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "client/transport/common/collective_op.h"
#include "client/transport/nccl/nccl_api.h"

namespace lockstep::transport::nccl {

// One function of NCCL: kAllReduce, kReduceScatter, kAllGather, kBroadcast,
// kSend or kRecv, at least one element.
struct NcclStep {
  CollectiveKind kind;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  NcclDType dtype = NcclDType::kUint8;
  NcclOp op = NcclOp::kSum;
  int peer = 0;
};

struct ScaleStep {
  void* data;
  DType dtype;
  double factor;
  size_t count;
};

struct ReduceStep {
  const void* inputs;
  void* out;
  size_t count;
  DType dtype;
  ReduceOp op;
};

struct Round {
  std::vector<NcclStep> steps;  // as one group
  std::vector<ReduceStep> reduces;
  std::vector<ScaleStep> scales;
};

struct Lowering {
  std::vector<Round> rounds = std::vector<Round>(1);
  Round& last() { return rounds.back(); }
};

struct LoweringPlace {
  int rank;
  int size;
  // Two bytes of the device, for what has nothing to move: sent, received.
  std::byte* token;
  // Memory until the kernels have run; null if there is none.
  absl::FunctionRef<void*(size_t bytes)> temporary;
  // The most to ask of it, for a call that is alone; 0 for one of several.
  size_t rows_bytes_max = 0;
};

// Adds what `call` needs; `call` has been checked.
void Lower(const CollectiveOp& call, const LoweringPlace& place,
           Lowering* lowering);

NcclDType ToNccl(DType dtype);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_LOWERING_H_
