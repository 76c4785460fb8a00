// One local step of every kind and dtype, for the tests of host and device.

#ifndef LOCKSTEP_TESTS_KERNELS_LOCAL_STEPS_TESTING_H_
#define LOCKSTEP_TESTS_KERNELS_LOCAL_STEPS_TESTING_H_

#include <span>
#include <string>
#include <vector>

#include "kernels/local_step.h"
#include "kernels/reduce_any.h"

namespace lockstep::kernels {

inline constexpr DType kEveryDType[] = {
    DType::kU8,     DType::kI8,    DType::kI32,  DType::kU32, DType::kI64,
    DType::kU64,    DType::kF16,   DType::kBF16, DType::kF32, DType::kF64,
    DType::kI16,    DType::kU16,   DType::kBool, DType::kC64, DType::kC128,
    DType::kF8E4M3, DType::kF8E5M2};

// Whether rows of the dtype are reduced by `op`.
inline bool Reduces(DType d, ReduceOp op) {
  return IsTransportDType(d) ? op != ReduceOp::kMean || IsFloat(d)
                             : CanReduceAny(d, op);
}

// Sizes of slices: with the offsets -1, 0, 1 and 2 in turn, of `count` rows.
inline std::span<const int64_t> SliceSizes() {
  static constexpr int64_t kSizes[] = {1, 1, 0, 3, 2, 1, 1, 1, 1, 5, 1};
  return kSizes;
}

// Steps of `count` elements, whose memory is not set.
inline std::vector<LocalStep> StepsOf(size_t count) {
  std::vector<LocalStep> steps;
  for (int k = 0; k <= static_cast<int>(LocalStep::Kind::kZeroSlices); ++k) {
    const auto kind = static_cast<LocalStep::Kind>(k);
    for (const DType dtype : kEveryDType) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin,
                                ReduceOp::kMax, ReduceOp::kProd}) {
        const bool wanted = kind == LocalStep::Kind::kReduceRows
                                ? Reduces(dtype, op)
                                : op == ReduceOp::kSum;
        if (!wanted || !Takes(kind, dtype)) continue;
        steps.push_back({.kind = kind,
                         .count = count,
                         .dtype = dtype,
                         .op = op,
                         .copy = {.rows = 2,
                                  .columns = count,
                                  .bytes = 3,
                                  .in_row = count * 3,
                                  .in_column = 3,
                                  .out_row = 3,
                                  .out_column = 6},
                         .number = 3,
                         .row = 2,
                         .list = SliceSizes()});
      }
    }
  }
  return steps;
}

inline std::string Describe(const LocalStep& s) {
  return "kind " + std::to_string(static_cast<int>(s.kind)) + " of " +
         std::to_string(s.count) + " " + std::string(Name(s.dtype)) + ", " +
         std::string(Name(s.op));
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_TESTS_KERNELS_LOCAL_STEPS_TESTING_H_
