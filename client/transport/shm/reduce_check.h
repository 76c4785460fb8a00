// Reduces a slice piece by piece, and checks the result for non-finite values
// if the call asks for it (CollectiveOp::checks).
//
//   slice   [ piece 0 | piece 1 | piece 2 ]
//   parts   [ ─────────── ][ ───────── ]
//
// If all pieces and parts begin at a run of the sum tree (kernels::kSumRun),
// parts are checked while they are reduced, else at the end.

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
  // `call` outlives this object.
  explicit ReduceCheck(const CollectiveOp& call) : call_(call) {}

  // Called first. `slice` is what this rank reduces. `piece`: the elements of
  // each Reduce, except the last; 0: they vary.
  void Begin(const SliceRange& slice, size_t piece);

  // Reduces elements `range` of the call; `inputs` and `outs` point to the
  // first of them.
  void Reduce(const SliceRange& range, std::span<const void* const> inputs,
              std::span<void* const> outs);

  // Called last. `result`: the first element of the reduced slice.
  void End(const std::byte* result);

 private:
  struct Rows;

  // Reduces the beginning of [begin, end), up to the next border of a part.
  // Returns the number of elements.
  size_t FoldNext(size_t begin, size_t end, const Rows& rows);
  size_t FoldInPart(const SliceRange& part, size_t begin, size_t end,
                    const Rows& rows);

  const CollectiveOp& call_;
  size_t slice_begin_ = 0;
  bool while_reducing_ = false;
  std::vector<kernels::FiniteCheck> found_;         // by part, finished ones
  std::unique_ptr<kernels::CheckedReduce> reduce_;  // the current part's
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_REDUCE_CHECK_H_
