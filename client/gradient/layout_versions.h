// The layouts in effect, and the next ones until a verdict switches to them.
//
//   ls-revise    Stage(next) ────┐
//   comm stream   ...  [verdict 7 entered: Prepare ─▶ "staged"]
//                      [verdict 7 passed by all: Switch ─▶ OnMoved]
//   steps         ─────────── 7, revision 1 ───────────▶ 8, revision 2
//
// A revision has a layout, with its buckets, for each step that may be in
// flight; they take turns (Rotate). If it has several, a program fetches its
// views in each step, and its handler is not called.
//
// No rank mixes two revisions. Prepare commits a rank to keep its staged
// revision until the step's verdict, and the step summary says so; all ranks
// get the same verdict, bit for bit. So either all switch after the same step
// or none does. The StepId includes the revision: a rank that switched alone
// would not pass the next verdict.
//
// No view dangles. Views point into the buckets, which a switch replaces. A
// rank stages a later revision only while no view exists, or while there is a
// handler that fetches the views again. While prepared, the first View of a
// program without a handler blocks: for the verdict's exchange, never for work
// of the caller. The former buckets exist until the next verdict: work on a
// stream may still read them.
//
// Threads: current() and Rotate by threads that take part in a step, ordered by
//          verdicts; View, OnMoved, CanMove and Stage by any; Prepare, Release
//          and Switch by one at a time. The handler runs on the thread of
//          Switch, without a lock.

#ifndef LOCKSTEP_CLIENT_GRADIENT_LAYOUT_VERSIONS_H_
#define LOCKSTEP_CLIENT_GRADIENT_LAYOUT_VERSIONS_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "client/gradient/layout.h"

namespace lockstep::gradient {

class LayoutVersions {
 public:
  // The layouts of one revision, one for each step in flight.
  using Layouts = std::vector<std::unique_ptr<Layout>>;

  LayoutVersions(Layouts first, std::function<void()> on_moved);

  // The layout of the step in progress.
  Layout& current() const { return *current_.load(std::memory_order_acquire); }
  // The index of that layout among the layouts of its revision.
  size_t turn() const { return turn_.load(std::memory_order_relaxed); }
  // Another step begins; true if it has another layout.
  bool Rotate();
  // Calls `work` for the layouts in effect, and returns the first error. Not to
  // be called with a switch.
  absl::Status ForEach(absl::FunctionRef<absl::Status(Layout&)> work);
  // The revision of the layout in effect; from any thread.
  Revision revision() const {
    return {revision_.load(std::memory_order_relaxed)};
  }

  // The parameter's gradient in the step in progress. Without a handler it
  // stays valid for good: this rank stages no later revision from then on.
  absl::Span<std::byte> View(int parameter);

  // Sets the handler that is called after each switch. Null removes it: this
  // rank then stages no later revision if it has returned views.
  void OnMoved(std::function<void()> handler);

  // For good: this rank stages no later revision.
  void Freeze();

  // Whether a later revision can be staged.
  bool CanMove() const;
  // Keeps `next` until a verdict switches to it. FailedPrecondition, and `next`
  // is destroyed, if CanMove is false or `next` is not the revision after the
  // current one; InvalidArgument if its parameters or communicators differ.
  absl::Status Stage(Layouts next);
  bool HasStaged() const;

  // Whether a next revision is staged. If so, it stays staged until Release or
  // Switch was called for this step.
  bool Prepare();
  // A prepared step is over, and switches to nothing.
  void Release();
  // The epoch is over: no switch follows.
  void ReleaseAll();

  // The last prepared step is over, and all ranks have prepared. Copies the
  // gradients without the lock, puts the next revision in effect, and calls the
  // handler; false if none was prepared. On an error of the copy the old
  // revision stays in effect.
  absl::StatusOr<bool> Switch();
  // Work that was on a stream when Switch was called has run.
  void ForgetFormer();

 private:
  // False if not prepared.
  absl::StatusOr<bool> CopyIfPrepared();
  bool MayMove() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !frozen_ && (!views_are_out_ || on_moved_ != nullptr);
  }

  mutable Mutex mutex_;
  CondVar released_;
  Layouts in_effect_ ABSL_GUARDED_BY(mutex_);
  Layouts next_ ABSL_GUARDED_BY(mutex_);
  Layouts former_;  // of the thread that switches
  std::function<void()> on_moved_ ABSL_GUARDED_BY(mutex_);
  bool views_are_out_ ABSL_GUARDED_BY(mutex_) = false;
  bool frozen_ ABSL_GUARDED_BY(mutex_) = false;
  int prepared_ ABSL_GUARDED_BY(mutex_) = 0;  // steps
  std::atomic<size_t> turn_{0};
  std::atomic<Layout*> current_;
  std::atomic<uint64_t> revision_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_LAYOUT_VERSIONS_H_
