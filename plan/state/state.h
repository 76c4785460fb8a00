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
// dimension hold the same block. A tensor may be held by a part of the ranks,
// as those of one pipeline stage.

#ifndef LOCKSTEP_PLAN_STATE_STATE_H_
#define LOCKSTEP_PLAN_STATE_STATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/dtype.h"
#include "lockstep/mesh.h"
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
  bool operator==(const StateTensor&) const = default;
};

// Bounds of blocks whose sizes differ by 1 at most, larger ones first: 10 in 3
// are 0 4 7 10.
std::vector<int64_t> EvenBounds(int64_t extent, int blocks);

// InvalidArgument names the tensor, and the dimension or rank: bounds that do
// not rise from 0 or are not as many as the blocks, an axis that is not in the
// mesh or cuts twice, ranks that are none or do not rise, elements that no rank
// holds, a size that overflows.
absl::Status Validate(const StateTensor& tensor, const Mesh& mesh);

// The elements that a rank of `tensor.ranks` holds. The tensor must be valid,
// as below.
TensorBox BoxOf(const StateTensor& tensor, const Mesh& mesh, int rank);

// Elements that the same ranks hold; at least one.
struct StateBlock {
  TensorBox box;
  std::vector<int> ranks;  // rising
  bool operator==(const StateBlock&) const = default;
};

// The blocks of a tensor, which tile it, in the order of their first ranks.
std::vector<StateBlock> BlocksOf(const StateTensor& tensor, const Mesh& mesh);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_STATE_STATE_H_
