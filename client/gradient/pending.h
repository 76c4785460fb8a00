// A pending verdict of a step: shared by its waiter and its producer.

#ifndef LOCKSTEP_CLIENT_GRADIENT_PENDING_H_
#define LOCKSTEP_CLIENT_GRADIENT_PENDING_H_

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/deadline.h"
#include "base/mutex.h"
#include "client/gradient/step_summary.h"
#include "client/transport/device_context.h"
#include "kernels/loss_scale.h"
#include "lockstep/gradient_sync.h"

namespace lockstep {

namespace gradient {
class Layout;
}

class PendingVerdict::State {
 public:
  // Wait passes errors through `explain`, which may block until the cause is
  // known.
  explicit State(std::function<absl::Status(const absl::Status&)> explain)
      : explain_(std::move(explain)) {}

  // Where the device decides: everything of the step is enqueued, and `decided`
  // follows it.
  void Enqueued(const Event& decided) {
    MutexLock lock(&mutex_);
    decided_ = decided;
    completed_.NotifyAll();
  }
  // Blocks until then; no value: the step ended before.
  std::optional<Event> AwaitEnqueued() const {
    MutexLock lock(&mutex_);
    while (!decided_ && !result_) completed_.Wait(&mutex_);
    return decided_;
  }

  // Only the first call has an effect; scalars must be set before.
  void Complete(absl::StatusOr<Verdict> result) {
    const absl::Status status = result.status();
    Complete(std::move(result), status);
  }
  // A step that changes nothing: its stream continues without an error.
  void CompleteVoid(const absl::Status& why) {
    Complete(why, absl::OkStatus());
  }

  // Releases a stream once the step has ended, with the scalars and the step's
  // unexplained error. Call once, before scalars() is called.
  void Holds(std::shared_ptr<transport::DeviceContext::StreamGate> hold) {
    absl::Status status;
    bool is_complete = false;
    {
      MutexLock lock(&mutex_);
      hold_ = hold;
      is_complete = result_.has_value();
      status = of_the_stream_;
    }
    if (is_complete) hold->Release(status, &scalars_);
  }

  // The event whose Wait drives the streams that the verdict depends on.
  void set_driver(Event driver) { driver_ = std::move(driver); }

  // The scalars that work on a stream reads.
  const VerdictScalars* scalars() const {
    if (on_device_ != nullptr) return on_device_;
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

  // The result, unexplained; none in time: no value.
  std::optional<absl::StatusOr<Verdict>> AwaitResult(
      const Deadline& deadline) const {
    MutexLock lock(&mutex_);
    while (!result_ && !deadline.Passed()) {
      completed_.WaitFor(&mutex_, deadline.Left());
    }
    return result_;
  }
  // Blocks until there is a result; its status, unexplained.
  absl::Status AwaitResult() const {
    MutexLock lock(&mutex_);
    while (!result_) completed_.Wait(&mutex_);
    return result_->status();
  }

  // The device writes the scalars, there. Call it before they are asked for.
  void set_device_scalars(const VerdictScalars* scalars) {
    on_device_ = scalars;
  }
  // Owned by the comm stream's thread until Complete.
  void set_scalars(const VerdictScalars& scalars) { scalars_ = scalars; }
  gradient::SummaryVectors vectors;
  gradient::StepId step_id;
  FinishOptions options;
  uint64_t launch = 0;                 // step_gate.h
  gradient::Layout* layout = nullptr;  // until the next revision takes effect
  bool is_prepared = false;            // LayoutVersions::Prepare
  bool is_replay = false;              // launched by the program
  // The parameters that it submits, if it was captured.
  std::shared_ptr<const std::vector<bool>> gave;
  bool stream_follows_device = false;  // the host does not wait
  double max_norm = 0;                 // for the scalars
  bool has_scalars = false;            // whether a stream reads the scalars
  // What the device has scaled the loss with, once it is known.
  std::optional<LossScale> loss_scale;
  gradient::UpdateTerms terms() const {
    return {.inverse_scale = loss_scale ? kernels::InverseOf(*loss_scale)
                                        : options.inverse_scale,
            .per_sample = options.per_sample,
            .max_norm = has_scalars ? std::optional(max_norm) : std::nullopt};
  }
  // This rank's, without norm and commands.
  gradient::StepSummary OwnSummary() const {
    return {.samples = options.samples,
            .more_data = options.more_data,
            .terms = terms()};
  }
  absl::Time closed;  // when Finish was called, or its stream reached it

 private:
  void Complete(absl::StatusOr<Verdict> result,
                const absl::Status& of_the_stream) {
    // The program may print it: without payloads, which are the library's.
    const absl::Status plain(of_the_stream.code(), of_the_stream.message());
    std::shared_ptr<transport::DeviceContext::StreamGate> hold;
    {
      MutexLock lock(&mutex_);
      if (result_) return;
      result_ = std::move(result);
      of_the_stream_ = plain;
      completed_.NotifyAll();
      hold = hold_;
    }
    if (hold != nullptr) hold->Release(plain, &scalars_);
  }

  const std::function<absl::Status(const absl::Status&)> explain_;
  Event driver_;            // fixed before any thread can wait
  VerdictScalars scalars_;  // fixed once there is a result
  const VerdictScalars* on_device_ = nullptr;
  mutable Mutex mutex_;
  mutable CondVar completed_;
  std::optional<absl::StatusOr<Verdict>> result_ ABSL_GUARDED_BY(mutex_);
  absl::Status of_the_stream_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<transport::DeviceContext::StreamGate> hold_
      ABSL_GUARDED_BY(mutex_);
  std::optional<Event> decided_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep

#endif  // LOCKSTEP_CLIENT_GRADIENT_PENDING_H_
