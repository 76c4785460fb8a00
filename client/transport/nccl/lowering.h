// Lowers a Communicator's calls to NCCL's: the calls of one NCCL group, and the
// kernels that follow it. Usually that is one round; a call that needs more
// memory than there is takes several rounds, one after the other:
//
//   [gather][reduce] [gather][reduce] [gather][reduce]     min of floats
//
//   AllReduce mean           all-reduce sum, then a multiply: NCCL's own
//                            average rounds differently. Gradients whose norm
//                            is computed behind the transfer are summed only:
//                            the pass of the norm multiplies them
//                            (ScalesInOwnPass of extended_collectives.h)
//   min, max of floats       gathered, then reduced by a kernel: NCCL uses
//                            fminf and fmaxf, which drop a NaN; in rounds, if
//                            the rows do not fit into `rows` and the group has
//                            only this call
//   AllToAll, AllToAllV      sends and receives, also to the rank itself
//   Barrier, empty calls     one byte: NCCL does not synchronize for no
//                            elements
//
// A pure function, except for the memory that it requests.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_LOWERING_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_LOWERING_H_

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "client/transport/common/collective_op.h"
#include "client/transport/nccl/nccl_api.h"

namespace lockstep::transport::nccl {

// One NCCL call: kAllReduce, kReduceScatter, kAllGather, kBroadcast, kSend or
// kRecv, with at least one element.
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
  std::vector<NcclStep> steps;  // in one NCCL group
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
  // Two bytes of device memory for empty calls: sent, received.
  std::byte* token;
  // Returns memory that is valid until the kernels have run, or null.
  absl::FunctionRef<void*(size_t bytes)> temporary;
  // The most to request, for the only call of a group; 0 for one of several.
  size_t rows_bytes_max = 0;
};

// Adds the steps and kernels of `call`, which the caller has checked.
void Lower(const CollectiveOp& call, const LoweringPlace& place,
           Lowering* lowering);

NcclDType ToNccl(DType dtype);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_LOWERING_H_
