// A worker's session from epoch to epoch, and what the worker says of it
// (recovery_report.h).
//
//   Ended ─▶ [steps in flight end] ─▶ Recover ─▶ [the update of a step that
//   others have passed] ─▶ JoinNext ─▶ [StateReplicas::Resume] ─▶ Resumed
//
// Not thread-safe.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_WORKER_EPOCHS_H_
#define LOCKSTEP_EXAMPLES_DIGITS_WORKER_EPOCHS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/recovery.h"
#include "lockstep/session.h"
#include "lockstep/state_replicas.h"

namespace lockstep::digits {

// Joins the next epoch.
using JoinAgain = std::function<absl::StatusOr<std::unique_ptr<Session>>(
    const Recovery& recovered)>;

class WorkerEpochs {
 public:
  // `session` is replaced from epoch to epoch, and must outlive this object.
  WorkerEpochs(std::unique_ptr<Session>& session, JoinAgain join_again,
               bool machine_progress)
      : session_(session),
        join_again_(std::move(join_again)),
        machine_progress_(machine_progress) {}

  // Whether the job goes on when it has lost a worker.
  bool recovers() const;
  // Whether the session has ended, rather than a call of this worker failed.
  bool has_ended() const { return !session_->status().ok(); }

  // Says that the epoch has ended, as soon as it is known; `steps` have passed.
  void Ended(int64_t steps) const;
  // What this worker is to do; an error says why it ends here.
  absl::StatusOr<Recovery> Recover();
  // Behind Recover. Destroys the session: nothing that uses it may be left.
  absl::Status JoinNext();
  // The state after `steps` steps is there. Says so in all epochs but the
  // first.
  void Resumed(int64_t steps, StateOrigin origin);

 private:
  std::unique_ptr<Session>& session_;
  const JoinAgain join_again_;
  const bool machine_progress_;
  std::optional<Recovery> recovered_;  // into the epoch of the session
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_WORKER_EPOCHS_H_
