// A reduction that looks at what it makes while it has it at hand: reduce.h and
// finite_check.h in one pass over memory.
//
//   rank 0  [a0 a1 a2 ...]
//   rank 1  [b0 b1 b2 ...]  ── fold ──┬─▶ outs
//                                     └─ squared ─▶ FiniteCheck
//
// What a rank sums of gradients is more than its cache holds, so a second pass
// for the global norm would cost half as much as the first.
//
// Bits: of ReduceRanksToAll in the rows, and of CheckFinite over all pieces of
// the first of them, as one buffer, in the check.

#ifndef LOCKSTEP_KERNELS_CHECKED_REDUCE_H_
#define LOCKSTEP_KERNELS_CHECKED_REDUCE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/finite_check.h"
#include "kernels/sum_tree.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels {

class CheckedReduce {
 public:
  // Of a float type.
  CheckedReduce(DType dtype, ReduceOp op) : dtype_(dtype), op_(op) {}

  // ReduceRanksToAll of the next piece: a multiple of kSumRun elements, but for
  // the last.
  void Fold(std::span<const void* const> inputs, std::span<void* const> outs,
            size_t count);

  // Of all pieces. Ends its life: call it once.
  FiniteCheck Total() {
    return {.sum_of_squares = tree_.Total(), .non_finite = non_finite_};
  }

 private:
  const DType dtype_;
  const ReduceOp op_;
  SumTree tree_;
  uint64_t non_finite_ = 0;
};

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_CHECKED_REDUCE_H_
