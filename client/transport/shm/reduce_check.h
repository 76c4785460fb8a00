// The folding of a slice, piece by piece, and the checks of what comes out, if
// the call asks for them (Call::checks).
//
//   slice   [ piece 0 | piece 1 | piece 2 ]
//   parts   [ ─────────── ][ ───────── ]
//
// Where pieces and parts begin with whole runs of the sum tree, parts are
// checked while they are folded, else at the end.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_REDUCE_CHECK_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_REDUCE_CHECK_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "client/transport/common/collective_op.h"
#include "client/transport/common/slices.h"
#include "kernels/checked_reduce.h"
#include "kernels/finite_check.h"

namespace lockstep::transport {

class ReduceCheck {
 public:
  // `call` outlives it.
  explicit ReduceCheck(const CollectiveOp& call) : call_(call) {}

  // What this rank folds, and the pieces in which Fold will get it: of `piece`
  // elements, but for the last; 0: others, too.
  void Begin(const Range& slice, size_t piece);

  // Elements [range) of the call, from and to where these begin.
  void Fold(const Range& range, std::span<const void* const> inputs,
            std::span<void* const> outs);

  // All is folded, and lies at `result` from the slice's first element on.
  void End(const std::byte* result);

 private:
  struct Rows;

  // Folds what lies in one part, or between two: how much of [begin, end).
  size_t FoldNext(size_t begin, size_t end, const Rows& rows);
  size_t FoldInPart(const Range& part, size_t begin, size_t end,
                    const Rows& rows);

  const CollectiveOp& call_;
  size_t slice_begin_ = 0;
  bool while_folding_ = false;
  std::vector<kernels::FiniteCheck> found_;         // of the parts behind us
  std::unique_ptr<kernels::CheckedReduce> reduce_;  // of the next, once begun
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_REDUCE_CHECK_H_
