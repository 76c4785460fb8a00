// What a halo exchange does, as values: which dimensions of which tensors are
// cut over which mesh axes, how many cells of its neighbours a rank needs, and
// what is beyond the edge of the whole field.
//
//   field of 10 rows over 2 ranks, low 1, high 2
//
//              edge │ rank 0: rows 0-5      │ rank 1: rows 6-9 │ edge
//   rank 0        e │ 0  1  2  3  4  5      │ 6  7             │
//   rank 1          │                     5 │ 6  7  8  9       │ e  e
//
// The result is what a single process gets that pads the whole field, dimension
// by dimension, and takes the rows of each rank with their halos from it.
// Blocks may have different sizes, and a halo may be wider than a block: its
// cells then come from several ranks. Corners are included.
//
// Edges, N being the size of the whole dimension:
//
//   zero       0 0 | a b c d | 0 0
//   constant   k k | a b c d | k k
//   periodic   c d | a b c d | a b     any width: a field of 1 cell repeats it
//   reflect    c b | a b c d | c b     widths below N
//   replicate  a a | a b c d | d d
//   none           | a b c d |         nothing is added beyond the field's edge
//
// A cell that is beyond the edge of several dimensions is constant if one of
// them is zero or constant (of the last of them in the tensor's order, as if
// it were padded in it); otherwise each dimension's rule is applied.

#ifndef LOCKSTEP_HALO_SPEC_H_
#define LOCKSTEP_HALO_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/dtype.h"

namespace lockstep {

// The values are part of the wire format.
enum class HaloEdge : uint8_t {
  kZero = 1,
  kPeriodic = 2,
  kReflect = 3,
  kReplicate = 4,
  kConstant = 5,
  kNone = 6,
};

inline constexpr HaloEdge kAllHaloEdges[] = {
    HaloEdge::kZero,      HaloEdge::kPeriodic, HaloEdge::kReflect,
    HaloEdge::kReplicate, HaloEdge::kConstant, HaloEdge::kNone};

constexpr std::string_view Name(HaloEdge edge) {
  switch (edge) {
    case HaloEdge::kZero: return "zero";
    case HaloEdge::kPeriodic: return "periodic";
    case HaloEdge::kReflect: return "reflect";
    case HaloEdge::kReplicate: return "replicate";
    case HaloEdge::kConstant: return "constant";
    case HaloEdge::kNone: return "none";
  }
  return "?";
}

// As a width, with edge kNone only: all cells of the field. With it on both
// sides of every cut dimension an exchange gathers the whole field on each
// rank, and its adjoint sums the ranks' gradients and leaves each its block;
// HaloExchange::Trim then takes the own block of a whole field.
inline constexpr int64_t kWholeField = INT64_MAX;

// A dimension of a tensor that is cut, padded, or both.
struct HaloDim {
  int dim = 0;       // of the tensor; negative: counted from the last
  std::string axis;  // the mesh axis that cuts it; empty: it is not cut
  int64_t low = 0;   // cells before the block, not negative; or kWholeField
  int64_t high = 0;  // cells after the block
  HaloEdge edge = HaloEdge::kZero;
  double constant = 0;  // kConstant: finite, at most the dtype's largest
  bool operator==(const HaloDim&) const = default;
};

// One tensor of an exchange. At most kHaloDimsMax dimensions, of which each is
// in `dims` at most once, and each mesh axis cuts at most one.
inline constexpr int kHaloDimsMax = 8;
struct HaloTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // of this rank's block, without halos
  std::vector<HaloDim> dims;
  bool operator==(const HaloTensor&) const = default;
};

// The tensors of an exchange, whose halos travel together: one message for each
// pair of ranks and direction.
struct HaloSpec {
  std::string name;  // unique in the program
  std::vector<HaloTensor> tensors;
  bool operator==(const HaloSpec&) const = default;
};

}  // namespace lockstep

#endif  // LOCKSTEP_HALO_SPEC_H_
