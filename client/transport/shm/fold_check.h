// The folding of a slice, piece by piece, and the check of what comes out, if
// the call asks for it (Call::check).
//
//   slice   [ piece 0 | piece 1 | piece 2 ]
//   checked [ ────────────────────── ]        a part of its beginning
//
// Pieces of whole runs are checked while they are folded, others at the end.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_FOLD_CHECK_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_FOLD_CHECK_H_

#include <cstddef>
#include <memory>
#include <span>

#include "client/transport/call.h"
#include "client/transport/slices.h"
#include "kernels/checked_reduce.h"

namespace lockstep::transport {

class FoldCheck {
 public:
  // `call` outlives it.
  explicit FoldCheck(const Call& call) : call_(call) {}

  // The call's elements that are this rank's to check, and the pieces in which
  // Fold will get them: of `piece` elements, but for the last; 0: others, too.
  void Begin(const Range& slice, size_t piece);

  // Elements [range) of the call, from and to where these begin.
  void Fold(const Range& range, std::span<const void* const> inputs,
            std::span<void* const> outs);

  // All is folded, and lies at `result` from the slice's first element on.
  void End(const std::byte* result);

 private:
  const Call& call_;
  Range checked_;
  std::unique_ptr<kernels::CheckedReduce> reduce_;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_FOLD_CHECK_H_
