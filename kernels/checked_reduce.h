// A reduction that looks at what it makes while it has it at hand: reduce.h or
// reduce_pairs.h, and finite_check.h, in one pass over memory.
//
//   rank 0  [a0 a1 a2 ...]
//   rank 1  [b0 b1 b2 ...]  ── fold ──┬─▶ outs
//                                     └─ squared ─▶ FiniteCheck
//
// What a rank sums of gradients is more than its cache holds, so a second pass
// for the global norm would cost half as much as the first.
//
// Bits: of ReduceRanksToAll or ReducePairsToAll in the rows, and of CheckFinite
// over all pieces of the first of them, as one buffer, in the check.

#ifndef LOCKSTEP_KERNELS_CHECKED_REDUCE_H_
#define LOCKSTEP_KERNELS_CHECKED_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kernels/finite_check.h"
#include "kernels/sum_tree.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels {

class CheckedReduce {
 public:
  // Adds rows of a float type in rank order.
  CheckedReduce(DType dtype, ReduceOp op) : dtype_(dtype), op_(op) {}
  // Adds rows of f32 or f64 in pairs, then multiplies by `factor`.
  static CheckedReduce InPairs(DType dtype, double factor) {
    CheckedReduce reduce(dtype, ReduceOp::kSum);
    reduce.pairs_factor_ = factor;
    return reduce;
  }

  // The rows' next piece: a multiple of kSumRun elements, but for
  // the last.
  void Reduce(std::span<const void* const> inputs, std::span<void* const> outs,
              size_t count);

  // The check of all pieces together. Call it once, last.
  FiniteCheck Total() {
    return {.sum_of_squares = tree_.Total(), .non_finite = non_finite_};
  }

 private:
  template <class T>
  FiniteCheck FoldRun(std::span<const void* const> in,
                      std::span<void* const> out, size_t n) const;

  DType dtype_;
  ReduceOp op_;
  std::optional<double> pairs_factor_;
  SumTree tree_;
  uint64_t non_finite_ = 0;
};

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_CHECKED_REDUCE_H_
