// Which rank sends which part of the state to ranks that have lost theirs.
//
//   "w", held by ranks 0 1 2 3; rank 3 is new
//
//   chunks   0   1   2   3   4   5        of at most 512 KiB
//   from     0   1   2   0   1   2   ─▶ rank 3
//
// A chunk is contiguous in the memory of both ranks, at the same offset. Each
// goes to the healthy holder that has the least to send so far, so a newcomer
// receives from all holders at once.
//
// Deterministic: every rank computes the same.

#ifndef LOCKSTEP_PLAN_STATE_RECOVERY_H_
#define LOCKSTEP_PLAN_STATE_RECOVERY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/mesh.h"
#include "plan/state/state.h"

namespace lockstep::plan {

// It stays in the cache of a core between its hash and its copy.
inline constexpr int64_t kRecoveryChunkBytes = int64_t{512} << 10;

// Elements `offset` to before `offset + count` of a rank's memory of a tensor.
struct RecoveryChunk {
  int tensor = 0;  // index in the list of tensors
  int64_t offset = 0;
  int64_t count = 0;   // at least 1
  int from = 0;        // the rank that sends it
  int to = 0;          // the newcomer
  int holders_of = 0;  // index in RecoveryPlan::holders
  bool operator==(const RecoveryChunk&) const = default;
};

struct RecoveryPlan {
  // In the order of newcomers, tensors and offsets.
  std::vector<RecoveryChunk> chunks;
  // Healthy ranks that hold the elements of a chunk, rising.
  std::vector<std::vector<int>> holders;
  bool operator==(const RecoveryPlan&) const = default;
};

// The chunks that the newcomers need of the healthy ranks. Ranks that are
// neither take no part. The tensors must be valid (state.h).
//
// FailedPrecondition names the tensors, and the newcomers, of which no healthy
// rank holds all elements: these need a checkpoint. InvalidArgument: a rank
// that is not in the mesh, is there twice, or is a newcomer and healthy; a
// chunk of less than one byte.
absl::StatusOr<RecoveryPlan> PlanRecovery(
    const std::vector<StateTensor>& tensors, const Mesh& mesh,
    const std::vector<int>& newcomers, const std::vector<int>& healthy,
    int64_t chunk_bytes = kRecoveryChunkBytes);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_STATE_RECOVERY_H_
