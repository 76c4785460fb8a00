// One worker's training on a device: the loop of trainer.h, enqueued.
//
//   stream  [forward][loss][backward: gradients ─Submit▶ ...][verdict][update]
//   host    └ enqueues all of it ─────────── FinishAsync ──┘  └ Wait
//
// The update is enqueued after the verdict and reads its scalars: no weight
// changes in a step that the device has not seen committed. In a job with
// run_ahead the host waits for the verdict of an earlier step, and reports only
// some losses.
//
// If a worker is lost, the others recover and go on, as in host_training.h:
//
//   Run ─▶ epoch 1: bind, seal, train ──x── wait for the steps in flight
//          Recover: others have applied the step in progress ─▶ update
//          epoch 2: bind, seal, Resume, train ──▶ the last step
//
// Threads: one.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_DEVICE_DEVICE_TRAINING_H_
#define LOCKSTEP_EXAMPLES_DIGITS_DEVICE_DEVICE_TRAINING_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/digits/bound_gradients.h"
#include "examples/digits/device/device.h"
#include "examples/digits/device/device_network.h"
#include "examples/digits/network.h"
#include "examples/digits/trainer.h"
#include "examples/digits/worker_epochs.h"
#include "lockstep/session.h"
#include "lockstep/state_replicas.h"

namespace lockstep::digits {

struct DeviceTrainingOptions {
  Recipe recipe;
  bool machine_progress = false;  // lines of recovery_report.h
  // The stream and the memory of the session's device.
  std::function<absl::StatusOr<std::unique_ptr<Device>>(Session&)> make_device;
  JoinAgain join_again;
  // Gets the loss as in trainer.h. May be empty.
  std::function<void(int64_t step, double loss)> after_update;
};

template <typename T>
class DeviceTraining {
 public:
  // `network` provides the initial weights and gets the trained ones. `samples`
  // is this worker's share of a step in the session's epoch. `session` is
  // replaced when an epoch has ended. The references must outlive this object.
  DeviceTraining(DeviceTrainingOptions options, const TrainingSet& set,
                 Samples samples, std::unique_ptr<Session>& session,
                 Network<T>& network);
  ~DeviceTraining();
  DeviceTraining(const DeviceTraining&) = delete;
  DeviceTraining& operator=(const DeviceTraining&) = delete;

  // Runs the recipe's steps, or until the step that is the last of all ranks,
  // in as many epochs as it takes. The error is that of the step that failed,
  // if the job does not go on, or not with this process: its state is lost once
  // an update could not be enqueued.
  absl::Status Run();

 private:
  using Bound = BoundGradients<T, DeviceNetwork<T>>;
  struct Epoch {
    std::unique_ptr<Device> device;
    ArenaBuffer scalars;  // the device's, of a step that others have applied
    std::optional<Bound> bound;
    std::unique_ptr<StateReplicas> replicas;  // null: no worker is replaced
    std::deque<PendingVerdict> in_flight;
  };

  size_t run_ahead() const {
    return static_cast<size_t>(session_->spec().run_ahead);
  }
  GradientSync& sync() { return epoch_->bound->sync(); }
  Stream& stream() { return epoch_->device->stream(); }
  // The step that the next call enqueues.
  int64_t next() const {
    return step_ + static_cast<int64_t>(epoch_->in_flight.size());
  }

  absl::Status TrainInOneEpoch();
  absl::Status BeginEpoch();
  absl::Status MakeNetwork();
  absl::Status Bind();
  absl::Status Resume();

  absl::Status Steps();
  absl::Status Enqueue();
  absl::Status ComputeGradients(const std::vector<int>& rows);
  absl::Status Update(const VerdictScalars* scalars);
  absl::Status AwaitFirst();
  absl::Status Show();

  absl::Status GoOn();
  absl::Status RollForward(const lockstep::Verdict& verdict);
  void EndEpoch();

  const DeviceTrainingOptions options_;
  const TrainingSet& set_;
  const Samples samples_;
  std::unique_ptr<Session>& session_;
  WorkerEpochs epochs_;
  Network<T>& host_network_;
  std::unique_ptr<DeviceNetwork<T>> network_;
  std::optional<Epoch> epoch_;  // destroyed before its session
  int64_t step_ = 0;            // the first one whose verdict is not known
  bool was_last_ = false;
  bool has_state_ = true;  // no update is missing
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DEVICE_DEVICE_TRAINING_H_
