// Which transfers of the step in progress are launched, for the transfers of
// other lanes that the plan puts behind them (Transfer::after).
//
//   pipeline lanes   [recv][send] ... [shared sum] ─▶ MarkLaunched(ref, done)
//   gradient lane    tied: all submitted, waits ─────▶ launched, behind `done`
//
// A lane asks EventsBefore when everything else that a transfer waits for is
// there, and asks again whenever the listener is called. Without this table a
// lane knows the order within itself only.
//
// A step's transfers are counted by Finish: those of step n are marked between
// the n-th EndStep and the next one. Pipeline::Run returns when its transfers
// are over, so behind EndStep nothing of that step is waited for any more: also
// not by a step in which the pipeline did not run.
//
// Threads: any. The listener runs on the thread of MarkLaunched, without the
//          table's lock; SetListener waits for it.

#ifndef LOCKSTEP_CLIENT_EXECUTOR_LAUNCHED_TRANSFERS_H_
#define LOCKSTEP_CLIENT_EXECUTOR_LAUNCHED_TRANSFERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "lockstep/stream.h"
#include "plan/ir.h"

namespace lockstep::executor {

// The transfers of other lanes that `transfer`, of lane `lane`, comes after.
std::vector<plan::TransferRef> BeforeInOtherLanes(
    int lane, const plan::Transfer& transfer);

class LaunchedTransfers {
 public:
  // Later revisions of the plan have the same transfers in their other lanes.
  explicit LaunchedTransfers(const plan::RankPlan& rank);

  // The transfer is launched, and over once `done` has come. Without effect for
  // one that no other lane waits for.
  void MarkLaunched(const plan::TransferRef& ref, Event done);

  // The moments that a transfer of step `step` must come behind, the transfers
  // `before` it being launched. None: one of them is not launched yet.
  std::optional<std::vector<Event>> EventsBefore(
      absl::Span<const plan::TransferRef> before, uint64_t step) const;

  bool AreLaunched(absl::Span<const plan::TransferRef> transfers) const;

  // The lanes of a pipeline are being run: between BeginRun and EndRun. What
  // was launched before does not count.
  void BeginRun();
  void EndRun();
  bool running() const;

  // Finish was called: what is marked from now on is of the next step.
  void EndStep();

  // Called after each mark; null: nobody.
  void SetListener(std::function<void()> listener);

 private:
  const std::set<plan::TransferRef> awaited_;  // by another lane

  mutable Mutex mutex_;
  std::map<plan::TransferRef, Event> launched_ ABSL_GUARDED_BY(mutex_);
  uint64_t step_ ABSL_GUARDED_BY(mutex_) = 0;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;

  Mutex listener_mutex_;  // before mutex_, and before a lane's
  std::function<void()> listener_ ABSL_GUARDED_BY(listener_mutex_);
};

}  // namespace lockstep::executor

#endif  // LOCKSTEP_CLIENT_EXECUTOR_LAUNCHED_TRANSFERS_H_
