// CheckedReduce reduces rows (reduce.h or reduce_pairs.h) and checks the result
// (finite_check.h) in one pass over memory.
//
//   rank 0  [a0 a1 a2 ...]
//   rank 1  [b0 b1 b2 ...]  ── reduce ─┬─▶ outs
//                                      └─ squared ─▶ FiniteCheck
//
// A rank's gradients exceed its cache, so a second pass for the global norm
// would cost half as much as the first.
//
// The outputs have the bits of ReduceRanksToAll or ReducePairsToAll. The check
// has the bits of CheckFinite over the first output, all pieces as one buffer.
//
// Work:    the calling thread, runs of 4096 elements in order.
// Bytes:   per element: reads every input once, writes every output once.
// Run:     build/release/bin/kernels_test --gtest_filter='CheckedReduce*'
// Bench:   ./run bench kernels

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
  // Reduces rows of a float type in rank order.
  CheckedReduce(DType dtype, ReduceOp op) : dtype_(dtype), op_(op) {}
  // Adds rows of f32 or f64 in pairs, then multiplies by `factor`.
  static CheckedReduce InPairs(DType dtype, double factor) {
    CheckedReduce reduce(dtype, ReduceOp::kSum);
    reduce.pairs_factor_ = factor;
    return reduce;
  }

  // Reduces the next piece of the rows. Every piece but the last is a multiple
  // of kSumRun elements.
  void Reduce(std::span<const void* const> inputs, std::span<void* const> outs,
              size_t count);

  // Returns the check of all pieces together. Call it once, last.
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
