// The state of a job, such as parameters and the optimizer's moments: tensors
// that ranks hold whole, or in blocks.
//
//   "w" f32[10,4], dim 0 cut over data, held by all ranks of data=3,model=2
//
//     data 0   rows 0-3    ranks 0 1     a block, and the ranks that hold it
//     data 1   rows 4-6    ranks 2 3
//     data 2   rows 7-9    ranks 4 5
//
// Blocks may have different sizes. Ranks that differ only in axes that cut no
// dimension hold the same block, or slices of it: elements in row-major order.
// A tensor may be held by a part of the ranks, as those of one pipeline stage.
//
// Elements that a rank holds are boxes of the whole tensor. A slice is several,
// each of them contiguous in the rank's memory:
//
//   block [3,4]   . . . a      elements 3-9: the end of a row, whole rows,
//                 b b b b      the begin of a row
//                 c c . .

#ifndef LOCKSTEP_PLAN_STATE_STATE_H_
#define LOCKSTEP_PLAN_STATE_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/dtype.h"
#include "lockstep/mesh.h"
#include "lockstep/state_spec.h"
#include "protocol/tensor_box.h"

namespace lockstep::plan {

// A dimension of a whole tensor.
struct StateDim {
  // Cut it. A rank's block is numbered row-major over them, the last one
  // fastest. Empty: there is one block.
  std::vector<std::string> axes;
  std::vector<int64_t> bounds;  // block i is [bounds[i], bounds[i + 1])
  int64_t extent() const { return bounds.back(); }
  bool operator==(const StateDim&) const = default;
};

struct StateTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<StateDim> dims;
  std::vector<int> ranks;  // that hold it, rising
  // What each of these ranks holds of its block. Empty: all of it.
  std::vector<StateSlice> slices;
  bool operator==(const StateTensor&) const = default;
};

// Bounds of blocks whose sizes differ by 1 at most, larger ones first: 10 in 3
// are 0 4 7 10.
std::vector<int64_t> EvenBounds(int64_t extent, int blocks);

// InvalidArgument names the tensor, and the dimension or rank: more dimensions
// than kStateDimsMax, bounds that do not rise from 0 or are not as many as the
// blocks, an axis that is not in the mesh or cuts twice, ranks that are none or
// do not rise, a slice that is not in its block, slices that overlap without
// being equal, elements that no rank holds, a size that overflows.
absl::Status Validate(const StateTensor& tensor, const Mesh& mesh);

// The block of a rank of `tensor.ranks`, whatever slice it holds of it. The
// tensor must be valid, as below.
TensorBox BlockOf(const StateTensor& tensor, const Mesh& mesh, int rank);

// Elements that a rank holds.
struct HeldBox {
  TensorBox box;
  // Where they begin in the rank's memory of the tensor, in elements.
  int64_t offset = 0;
  bool operator==(const HeldBox&) const = default;
};

// All elements that `rank` holds, in the order of its memory: a block, or at
// most 2 * dims - 1 boxes of a slice. None for a rank that is not in
// `tensor.ranks`.
std::vector<HeldBox> BoxesOf(const StateTensor& tensor, const Mesh& mesh,
                             int rank);

// Divides elements of a block, counted row-major, into boxes without empty
// ones, in the order of the elements; the first one has offset 0.
std::vector<HeldBox> BoxesIn(const TensorBox& block, const StateSlice& slice);

// Elements that the same ranks hold, at the same offset; at least one.
struct StateBlock {
  TensorBox box;
  int64_t offset = 0;
  std::vector<int> ranks;  // rising
  bool operator==(const StateBlock&) const = default;
};

// What ranks hold of a tensor: blocks which tile it, in the order of their
// first ranks, then of offsets.
std::vector<StateBlock> BlocksOf(const StateTensor& tensor, const Mesh& mesh);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_STATE_STATE_H_
