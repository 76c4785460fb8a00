// A step's verdict on its way: shared by who waits for it and who makes it.

#ifndef LOCKSTEP_CLIENT_GRADIENT_PENDING_H_
#define LOCKSTEP_CLIENT_GRADIENT_PENDING_H_

#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/gradient/ballot.h"
#include "lockstep/gradient_sync.h"

namespace lockstep {

class PendingVerdict::State {
 public:
  // Wait passes errors through `explain`, which may wait for a better one.
  explicit State(std::function<absl::Status(const absl::Status&)> explain)
      : explain_(std::move(explain)) {}

  // The first call decides; scalars are written before.
  void Complete(absl::StatusOr<Verdict> result) {
    MutexLock lock(&mutex_);
    if (result_) return;
    result_ = std::move(result);
    completed_.NotifyAll();
  }

  absl::StatusOr<Verdict> Wait() {
    {
      MutexLock lock(&mutex_);
      while (!result_) completed_.Wait(&mutex_);
      if (result_->ok()) return *result_;
    }
    return explain_(result_->status());
  }

  // Blocks a stream until the step has ended; its error, unexplained.
  absl::Status Settle() {
    MutexLock lock(&mutex_);
    while (!result_) completed_.Wait(&mutex_);
    return result_->status();
  }

  // The comm stream's own until Complete.
  VerdictScalars scalars;
  gradient::BallotVectors vectors;
  gradient::StepStamp stamp;
  FinishOptions options;
  double max_norm = 0;
  absl::Time finish_called;

 private:
  const std::function<absl::Status(const absl::Status&)> explain_;
  Mutex mutex_;
  CondVar completed_;
  std::optional<absl::StatusOr<Verdict>> result_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep

#endif  // LOCKSTEP_CLIENT_GRADIENT_PENDING_H_
