// Collectives over named axes of the mesh, as values: all of jax.lax's, and a
// few with a root.
//
//   const AxisCollective op{.kind = AxisCollectiveKind::kAllGather,
//                           .axes = {"model"}, .axis = 1, .tiled = true};
//   OutputTypes(op, 4, 0, {{DType::kF32, {2, 3}}})     // f32[2,12]
//   TransposeOf(op)                                    // psum_scatter
//
// An operation runs among the members of a group: ranks that differ only in the
// coordinates of `axes`. A member's index there is row-major over `axes` in the
// given order (the first is slowest). `index_groups` divide it further: each
// lists indices of the members that form a group of their own, and the order in
// a list is the order of its members:
//
//   mesh data=2,model=2     axes {"data"}     axes {"data","model"},
//                                             index_groups {{0,2},{3,1}}
//     ranks 0 1             groups 0 2        groups 0 2 and 3 1: rank 3 has
//           2 3                    1 3        index 0 of its group, rank 1 has
//           1
//
// Shapes: tensors are row-major; s is the input's shape, n the members of the
//         group. The value is that of the member with index i.
//
//   psum, pprod         s: the sum, the product; i32 for bool; integers wrap
//   pmean               s: the sum / n; f32 for bool and integers
//   pmax, pmin          s: NaN where any member has NaN
//   pargmax, pargmin    s, i32: the first index with the extremum; INT32_MAX
//                       where any member has NaN
//   pbroadcast          s: the root's input; divided by n if `reduce` is kMean
//   ppermute            s: the input of j where (j, i) is in `pairs`, or zeros
//   pshuffle            s: the input of `sources[i]`
//   all_gather          n inserted at `axis`; tiled: s[axis] * n
//   all_gather_invariant  the same, with another transpose
//   psum_scatter        s without `axis`, which has n elements; tiled: s[axis]
//                       / n: part i of the sum; i32 for bool
//   all_to_all          s without `axis`, which has n elements, and n inserted
//                       at `concat_axis`; tiled: s[axis] / n and
//                       s[concat_axis] * n: part i of each member's input
//   pswapaxes           s: all_to_all with concat_axis = axis
//   pgather             inputs x and indices (i32): the shape of the indices,
//                       then s: x of the member with that index
//   ragged_all_to_all   inputs operand, output, input_offsets, send_sizes,
//                       output_offsets, recv_sizes (i32 or i64, one element
//                       for each slice, K for each member): rows
//                       [input_offsets[k], + send_sizes[k]) of the operand go
//                       to member k / K, to row output_offsets[k] of its
//                       output; rows that are not received keep their values.
//                       The same operand and output types on all members
//   reduce              as psum or the like (`reduce`), at the root only
//   gather              as all_gather, at the root only
//   scatter             as psum_scatter, of the root's input
//   axis_index, axis_size   i32 scalars: i, n
//   psend               nothing: sends the input to i' where (i, i') is in
//                       `pairs`, which have no cycle. May complete only with
//                       its precv: no other operation comes between them
//   precv               s: what psend with the same pairs sent; zeros if none
//   pvary               s: the input; divided by n if `reduce` is kMean
//   own_slice           as psum_scatter, of the own input
//
//   Negative axes count from the end of the shape that has the new axis where
//   one is inserted, else of the input's. Without axes each rank is alone;
//   all_gather and psum_scatter are then the identity (bool stays bool).
//   Sums and products are in the order of the members.
// Lists:  operations take any number of tensors, each handled alone, and move
//         them together; pgather and ragged_all_to_all do not.
// Errors: InvalidArgument from OutputTypes, before any byte moves.
// Source: jax.lax, with these differences: index groups are checked against the
//         axes; pmean divides by the size of the member's own group; transposes
//         of ragged_all_to_all and of untiled all_to_all are right for groups,
//         empty slices and all shapes.

#ifndef LOCKSTEP_AXIS_COLLECTIVE_H_
#define LOCKSTEP_AXIS_COLLECTIVE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lockstep/dtype.h"
#include "lockstep/export.h"
#include "lockstep/tensor_type.h"

namespace lockstep {

enum class AxisCollectiveKind : uint8_t {
  kPsum,
  kPmean,
  kPprod,
  kPmax,
  kPmin,
  kPargmax,
  kPargmin,
  kPbroadcast,
  kPpermute,
  kPshuffle,
  kAllGather,
  kAllGatherInvariant,
  kPsumScatter,
  kAllToAll,
  kPswapaxes,
  kPgather,
  kPgatherTranspose,
  kRaggedAllToAll,
  kRaggedAllToAllTranspose,
  kReduce,
  kGather,
  kScatter,
  kAxisIndex,
  kAxisSize,
  kPvary,
  kOwnSlice,
  kPsend,
  kPrecv,
};

// "psum", "all_to_all", ...: JAX's names where JAX has the operation.
LOCKSTEP_EXPORT std::string_view Name(AxisCollectiveKind kind);
LOCKSTEP_EXPORT std::optional<AxisCollectiveKind> ParseAxisCollectiveKind(
    std::string_view name);

struct LOCKSTEP_EXPORT AxisCollective {
  AxisCollectiveKind kind = AxisCollectiveKind::kPsum;
  std::vector<std::string> axes = {};
  // Empty: all members are one group. Else each index is in one group.
  // Reductions take groups of different sizes.
  std::vector<std::vector<int>> index_groups = {};

  int axis = 0;         // of the tensor, where the operation has one
  int concat_axis = 0;  // all_to_all
  bool tiled = false;
  int root = 0;  // index in the group
  // reduce; pvary and pbroadcast (kMean: divided by n).
  ReduceOp reduce = ReduceOp::kSum;
  // reduce: members other than the root get zeros instead of nothing.
  bool zeros_elsewhere = false;
  // ppermute: pairs (source, destination), each at most once.
  std::vector<std::pair<int, int>> pairs = {};
  // pshuffle: the source of each member.
  std::vector<int> sources = {};

  bool operator==(const AxisCollective&) const = default;
};

// The types of a member's outputs. `size`: members of its group; `index`: its
// own. `inputs`: the types of its inputs; of pbroadcast and scatter the root's,
// of precv the sender's, on all members. Errors: InvalidArgument, which names
// the operation.
LOCKSTEP_EXPORT absl::StatusOr<std::vector<TensorType>> OutputTypes(
    const AxisCollective& op, int size, int index,
    absl::Span<const TensorType> inputs);

// The two conventions for the transpose of psum and pmean. kSum: the cotangents
// of all members are summed, as each output is a value of its own. kIdentity:
// the outputs are one value that all members hold, whose cotangent they hold
// too: it is kept.
enum class PsumTranspose { kSum, kIdentity };

// The operation that maps cotangents of the outputs to those of the inputs,
// with the same axes and groups. Its inputs: the outputs' cotangents, except
//   pgather             cotangent, idx
//   ragged_all_to_all   cotangent, the four vectors of the forward call,
//   operand
//                       (only its type is used); outputs: the cotangents of
//                       operand and of output
// Errors: InvalidArgument for operations without one (max, min, prod, arg
// forms, indices). FailedPrecondition from psum and pmean without a convention.
LOCKSTEP_EXPORT absl::StatusOr<AxisCollective> TransposeOf(
    const AxisCollective& op, std::optional<PsumTranspose> convention = {});

}  // namespace lockstep

#endif  // LOCKSTEP_AXIS_COLLECTIVE_H_
