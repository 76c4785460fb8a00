// The layout in effect, and the next one until a verdict switches to it.
//
//   ls-revise    Hold(next) ─────┐
//   comm stream   ...  [verdict 7 entered: Promise ─▶ "I hold it"]
//                      [verdict 7 passed: Settle(all do) ─▶ switch ─▶ OnMoved]
//   steps         ─────────── 7, revision 1 ───────────▶ 8, revision 2
//
// Why no rank mixes two. A rank promises in its ballot of a step what it keeps
// until that step's verdict; all ranks see the same verdict, bit for bit. So
// all switch after the same step, or none does. The step's stamp has the
// revision: a rank that switched alone would not pass the next verdict.
//
// Why no view dangles. Views point into the buckets, which move. A rank holds a
// later layout only while nobody has a view, or while there is a handler that
// fetches them again. Between Promise and Settle the first view of a program
// without a handler waits: for the verdict's exchange, and never for work of
// the caller's own.
//
// Threads: current() by who takes part in a step, which the verdicts order;
//          View, OnMoved, CanMove and Hold from any; Promise and Settle by the
//          comm stream's thread, in turn. The handler runs on that thread,
//          without a lock.

#ifndef LOCKSTEP_CLIENT_GRADIENT_LAYOUT_VERSIONS_H_
#define LOCKSTEP_CLIENT_GRADIENT_LAYOUT_VERSIONS_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "client/gradient/layout.h"

namespace lockstep::gradient {

class LayoutVersions {
 public:
  LayoutVersions(std::unique_ptr<Layout> first, std::function<void()> on_moved);

  Layout& current() const { return *current_.load(std::memory_order_acquire); }
  // Of the layout in effect; from any thread.
  Revision revision() const {
    return {revision_.load(std::memory_order_relaxed)};
  }

  // The parameter's gradient. Without a handler it stays valid for good: this
  // rank holds no later layout from then on.
  absl::Span<std::byte> View(int parameter);

  // Called after each switch. Null: there is none from now on, and this rank
  // holds no later layout while views are out.
  void OnMoved(std::function<void()> handler);

  // A later layout could be held.
  bool CanMove() const;
  // Holds `next` until a verdict switches to it. FailedPrecondition, and `next`
  // is gone, if it cannot move, or is not the revision after the one in effect;
  // InvalidArgument if it is one of other parameters or communicators.
  absl::Status Stage(std::unique_ptr<Layout> next);
  bool HasStaged() const;

  // Does this rank hold the next layout? Then it stays so until Settle.
  bool Prepare();

  // Ends a promise; nobody waits for the gradients' copy but who waits for the
  // switch. `everyone`: all ranks made one; then the next layout is in
  // effect, has the gradients, and the handler has been called: true. An error
  // of the copy leaves the one before in effect.
  absl::StatusOr<bool> Commit(bool everyone);

 private:
  // False without a promise.
  absl::StatusOr<bool> CopyIfPromised();
  bool MayMove() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !views_are_out_ || on_moved_ != nullptr;
  }

  mutable Mutex mutex_;
  CondVar committed_;
  std::unique_ptr<Layout> in_effect_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Layout> next_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_moved_ ABSL_GUARDED_BY(mutex_);
  bool views_are_out_ ABSL_GUARDED_BY(mutex_) = false;
  bool prepared_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<Layout*> current_;
  std::atomic<uint64_t> revision_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_LAYOUT_VERSIONS_H_
