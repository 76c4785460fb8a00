// Which rank writes which part of the state to a checkpoint.
//
//   block held by ranks 0 2 4      a block that is large, and held by several
//   ┌──────────┐                   ranks, is divided by rows
//   │ part 0   │ ─▶ rank 2
//   │ part 1   │ ─▶ rank 0         each part goes to the one of them that has
//   └──────────┘                   the least to write
//
// Each element is written once. Parts are assigned in order of their sizes,
// largest first. If all ranks hold all of the state, no rank has more to write
// than the mean plus the largest part.
//
// Deterministic: every rank computes the same.

#ifndef LOCKSTEP_PLAN_STATE_WRITES_H_
#define LOCKSTEP_PLAN_STATE_WRITES_H_

#include <cstdint>
#include <vector>

#include "lockstep/mesh.h"
#include "plan/state/state.h"
#include "protocol/tensor_box.h"

namespace lockstep::plan {

// Elements of a tensor that a rank writes.
struct StateWrite {
  int tensor = 0;  // index in the list of tensors
  TensorBox box;
  int64_t offset = 0;  // in the rank's memory of the tensor (HeldBox)
  bool operator==(const StateWrite&) const = default;
};

// Larger boxes that several ranks hold are divided, into at most as many parts
// as there are such ranks.
inline constexpr int64_t kPartBytes = int64_t{64} << 20;

// For each rank of the mesh what it writes, in the order of tensors and of
// begins. The tensors must be valid (state.h).
std::vector<std::vector<StateWrite>> AssignWrites(
    const std::vector<StateTensor>& tensors, const Mesh& mesh,
    int64_t part_bytes = kPartBytes);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_STATE_WRITES_H_
