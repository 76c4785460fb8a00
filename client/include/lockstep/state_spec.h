// The state of a program, such as parameters and the optimizer's moments, as it
// is registered for checkpoints and for recovery (Session::RegisterState).
//
//   session->RegisterState({.name = "w", .shape = {3, 4},
//                           .cuts = {{.dim = 0, .axes = {"model"}}}}, w);
//
//   mesh data=2,model=2        "w" f32[6,4], dim 0 cut over model
//     rank 0, rank 2           rows 0-2
//     rank 1, rank 3           rows 3-5
//
// Each rank registers the block that it holds. Ranks that differ only in axes
// that cut no dimension hold the same values. Blocks along a cut dimension may
// have different sizes; together they are the dimension of the whole tensor.
// A tensor may be registered by a part of the ranks, as those of one pipeline
// stage, provided that these hold all of it.
//
// A rank may hold a slice of its block instead, as optimizers that divide their
// moments over data-parallel ranks do: elements of the block in row-major
// order. The slices of ranks that differ only in axes that cut no dimension are
// equal, or fill the block without overlap. A checkpoint describes slices by
// the tensor's own shape, so it can be read with any other division.

#ifndef LOCKSTEP_STATE_SPEC_H_
#define LOCKSTEP_STATE_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/dtype.h"

namespace lockstep {

// A dimension that is cut over mesh axes, row-major in their order.
struct StateCut {
  int dim = 0;  // of the tensor; negative: counted from the last
  std::vector<std::string> axes;
  bool operator==(const StateCut&) const = default;
};

// Elements of a block, counted row-major.
struct StateSlice {
  int64_t offset = 0;
  int64_t count = 0;
  bool operator==(const StateSlice&) const = default;
};

// At most kStateDimsMax dimensions, each cut at most once, and each axis cuts
// at most one.
inline constexpr int kStateDimsMax = 8;
struct StateSpec {
  // The same on all ranks, unique in the program: UTF-8, printable, at most 512
  // bytes. It is the tensor's name in checkpoints.
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // of this rank's block; {}: a scalar
  std::vector<StateCut> cuts;
  // Set: this rank holds these elements of the block only.
  std::optional<StateSlice> slice;
  // Set: this rank holds the slice that it updates of this parameter of the
  // GradientSync (GradientSync::Slice), which has the shape of the block. The
  // slice is known once the program is sealed.
  std::string sliced_like;
  bool operator==(const StateSpec&) const = default;
};

// The dtype of a C++ number.
template <typename T>
constexpr DType DTypeOfNumber() {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8,
                "state has no dtype for it");
  if constexpr (std::is_same_v<T, bool>) {
    return DType::kBool;
  } else if constexpr (std::is_floating_point_v<T>) {
    return sizeof(T) == 4 ? DType::kF32 : DType::kF64;
  } else if constexpr (std::is_signed_v<T>) {
    constexpr DType kBySize[] = {DType::kI8, DType::kI16, DType::kI32,
                                 DType::kI64};
    return kBySize[sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) / 4 + 1];
  } else {
    constexpr DType kBySize[] = {DType::kU8, DType::kU16, DType::kU32,
                                 DType::kU64};
    return kBySize[sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) / 4 + 1];
  }
}

struct StateId {
  int index = -1;  // in the order of registration on this rank
};

}  // namespace lockstep

#endif  // LOCKSTEP_STATE_SPEC_H_
