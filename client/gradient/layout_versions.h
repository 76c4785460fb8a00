// The layout in effect, and the next one until a verdict switches to it.
//
//   ls-revise    Stage(next) ────┐
//   comm stream   ...  [verdict 7 entered: Prepare ─▶ "staged"]
//                      [verdict 7 passed: Commit(all) ─▶ switch ─▶ OnMoved]
//   steps         ─────────── 7, revision 1 ───────────▶ 8, revision 2
//
// No rank mixes two layouts. Prepare commits a rank to keep its staged layout
// until the step's verdict, and the step summary says so; all ranks get the
// same verdict, bit for bit. So either all switch after the same step or none
// does. The StepId includes the revision: a rank that switched alone would not
// pass the next verdict.
//
// No view dangles. Views point into the buckets, which a switch replaces. A
// rank stages a later layout only while no view exists, or while there is a
// handler that fetches the views again. Between Prepare and Commit the first
// View of a program without a handler blocks: for the verdict's exchange, never
// for work of the caller.
//
// Threads: current() by threads that take part in a step, ordered by verdicts;
//          View, OnMoved, CanMove and Stage by any; Prepare and Commit by the
//          comm stream's thread, alternately. The handler runs on that thread,
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
  // The revision of the layout in effect; from any thread.
  Revision revision() const {
    return {revision_.load(std::memory_order_relaxed)};
  }

  // The parameter's gradient. Without a handler it stays valid for good: this
  // rank stages no later layout from then on.
  absl::Span<std::byte> View(int parameter);

  // Sets the handler that is called after each switch. Null removes it: this
  // rank then stages no later layout if it has returned views.
  void OnMoved(std::function<void()> handler);

  // Whether a later layout can be staged.
  bool CanMove() const;
  // Keeps `next` until a verdict switches to it. FailedPrecondition, and `next`
  // is destroyed, if CanMove is false or `next` is not the revision after the
  // current one; InvalidArgument if its parameters or communicators differ.
  absl::Status Stage(std::unique_ptr<Layout> next);
  bool HasStaged() const;

  // Whether a next layout is staged. If so, it stays staged until Commit.
  bool Prepare();

  // Ends a Prepare. `everyone`: all ranks have prepared. Then copies the
  // gradients without the lock, puts the next layout in effect, calls the
  // handler and returns true. On an error of the copy the old layout stays in
  // effect.
  absl::StatusOr<bool> Commit(bool everyone);

 private:
  // False if not prepared.
  absl::StatusOr<bool> CopyIfPrepared();
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
