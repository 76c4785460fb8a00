// Compares replicas of the state: ranks that hold the same elements must have
// the same bytes. Memory that silently changed is found, and named.
//
//   "w", held by 0 1 2 3   hashes   a a b a  ─▶  tensor "w" of rank 2
//   "v", held by 0 1       hashes   c d      ─▶  tensor "v" of ranks 0-1, one
//                                                of them
//
// Each rank hashes what it holds. One all-reduce finds out whether all replicas
// are equal; the hashes of those that are not are gathered then.
//
// Threads: one caller, which blocks.
// Ownership: the tensors and the memory must outlive it. The memory is on the
//            host, or, with a device, on either; it must not change during a
//            comparison.

#ifndef LOCKSTEP_CLIENT_STATE_REPLICA_CHECK_H_
#define LOCKSTEP_CLIENT_STATE_REPLICA_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/state/copy_faults.h"
#include "client/state/device_hashes.h"
#include "client/state/wire_memory.h"
#include "lockstep/communicator.h"
#include "lockstep/mesh.h"
#include "lockstep/stream.h"
#include "plan/state/state.h"

namespace lockstep::state {

// Replicas that are not equal.
struct ReplicaFault {
  std::string tensor;
  // Elements of the holders' memory of the tensor.
  int64_t offset = 0;
  int64_t count = 0;
  std::vector<int> holders;  // rising
  // The holders whose bytes differ from those of more than half of them; all
  // holders if there is no such majority.
  std::vector<int> suspects;
  bool operator==(const ReplicaFault&) const = default;
};

struct ReplicaReport {
  // The first kReplicaFaultsMax ones, in the order of tensors and memory.
  std::vector<ReplicaFault> faults;
  int64_t faults_more = 0;
  bool operator==(const ReplicaReport&) const = default;
};
inline constexpr size_t kReplicaFaultsMax = 16;

class ReplicaCheck {
 public:
  // `tensors` are valid; `memory` has this rank's memory of each, and nullptr
  // where it holds no elements. `wire`: what the communicator sends.
  ReplicaCheck(const std::vector<plan::StateTensor>& tensors, const Mesh& mesh,
               std::vector<const void*> memory, WireMemory wire = {});

  // Called by all ranks of the mesh, which are those of `comm`. All get the
  // same report. InvalidArgument if the communicator has another size (nothing
  // was enqueued then), or names a rank that lacks memory, on all ranks.
  // Internal, on all ranks, names a rank and its tensor that could not be
  // copied from the device; the rank itself has the cause. Else the errors of
  // `comm`.
  absl::StatusOr<ReplicaReport> Compare(Communicator& comm, Stream& stream);

  // DataLoss names each tensor that differs, its elements, and the ranks; else
  // the errors of Compare.
  absl::Status Check(Communicator& comm, Stream& stream);

 private:
  // Elements that several ranks hold.
  struct Replicated {
    int tensor = 0;
    int64_t offset = 0;
    int64_t count = 0;
    std::vector<int> ranks;
  };

  bool IsHeld(const Replicated& replicated, int rank) const;
  bool HasMemory(const Replicated& replicated) const;
  MemoryExtent ExtentOf(const Replicated& replicated) const;
  // The hashes of what this rank holds, else 0. A copy that failed is noted.
  std::vector<uint64_t> OwnHashes(int rank, CopyFaults* faults) const;
  ReplicaFault FaultOf(const Replicated& replicated,
                       const uint64_t* hash_by_rank) const;

  const std::vector<plan::StateTensor>& tensors_;
  const int ranks_;
  const std::vector<const void*> memory_;
  const WireMemory wire_;
  std::vector<Replicated> replicated_;
};

}  // namespace lockstep::state

#endif  // LOCKSTEP_CLIENT_STATE_REPLICA_CHECK_H_
