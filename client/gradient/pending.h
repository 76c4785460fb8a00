// A step's verdict on its way: shared by who waits for it and who makes it.

#ifndef LOCKSTEP_CLIENT_GRADIENT_PENDING_H_
#define LOCKSTEP_CLIENT_GRADIENT_PENDING_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/gradient/step_summary.h"
#include "client/transport/device_context.h"
#include "lockstep/gradient_sync.h"

namespace lockstep {

class PendingVerdict::State {
 public:
  // Wait passes errors through `explain`, which may wait for a better one.
  explicit State(std::function<absl::Status(const absl::Status&)> explain)
      : explain_(std::move(explain)) {}

  // The first call decides; scalars are written before.
  void Complete(absl::StatusOr<Verdict> result) {
    std::shared_ptr<transport::DeviceContext::StreamGate> hold;
    absl::Status status = result.status();
    {
      MutexLock lock(&mutex_);
      if (result_) return;
      result_ = std::move(result);
      completed_.NotifyAll();
      hold = hold_;
    }
    if (hold != nullptr) hold->Release(status, &scalars_);
  }

  // Releases a stream once the step has ended: with the scalars, and with the
  // step's error, unexplained. Once, before anybody asks for the scalars.
  void Holds(std::shared_ptr<transport::DeviceContext::StreamGate> hold) {
    absl::Status status;
    {
      MutexLock lock(&mutex_);
      hold_ = hold;
      if (!result_) return;
      status = result_->status();
    }
    hold->Release(status, &scalars_);
  }

  // Until `driver` is waited for, nobody may run what the verdict waits for.
  void set_driver(Event driver) { driver_ = std::move(driver); }

  // What a stream's work reads.
  const VerdictScalars* scalars() const {
    MutexLock lock(&mutex_);
    return hold_ == nullptr
               ? &scalars_
               : static_cast<const VerdictScalars*>(hold_->message());
  }

  absl::StatusOr<Verdict> Wait() {
    if (absl::Status driven = driver_.Wait(); !driven.ok()) return driven;
    {
      MutexLock lock(&mutex_);
      while (!result_) completed_.Wait(&mutex_);
      if (result_->ok()) return *result_;
    }
    return explain_(result_->status());
  }

  // The comm stream's own until Complete.
  void set_scalars(const VerdictScalars& scalars) { scalars_ = scalars; }
  gradient::SummaryVectors vectors;
  gradient::StepId step_id;
  FinishOptions options;
  double max_norm = 0;       // of the scalars
  bool has_scalars = false;  // it is for a stream that reads them
  gradient::UpdateTerms terms() const {
    return {.inverse_scale = options.inverse_scale,
            .per_sample = options.per_sample,
            .max_norm = has_scalars ? std::optional(max_norm) : std::nullopt};
  }
  absl::Time closed;  // Finish was called, or the stream got there

 private:
  const std::function<absl::Status(const absl::Status&)> explain_;
  Event driver_;            // fixed before anybody can wait
  VerdictScalars scalars_;  // fixed once there is a result
  mutable Mutex mutex_;
  CondVar completed_;
  std::optional<absl::StatusOr<Verdict>> result_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<transport::DeviceContext::StreamGate> hold_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep

#endif  // LOCKSTEP_CLIENT_GRADIENT_PENDING_H_
