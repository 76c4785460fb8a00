// One worker's training on the host: the network's loops, and buckets in host
// memory. If a worker is lost, the others recover and go on (lockstep/
// recovery.h).
//
//   Run ─▶ epoch 1: bind, seal, train ──x── Recover ─▶ join again
//          epoch 2: bind, seal, Resume, train ─────────▶ the last step
//
// Network, optimizer and step live as long as this object; what belongs to a
// session lives in one epoch.
//
// Threads: one.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_HOST_TRAINING_H_
#define LOCKSTEP_EXAMPLES_DIGITS_HOST_TRAINING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/digits/bound_gradients.h"
#include "examples/digits/network.h"
#include "examples/digits/save_options.h"
#include "examples/digits/saved_training.h"
#include "examples/digits/trainer.h"
#include "examples/digits/worker_epochs.h"
#include "lockstep/samples.h"
#include "lockstep/session.h"
#include "lockstep/state_replicas.h"

namespace lockstep::digits {

struct HostTrainingOptions {
  Recipe recipe;
  SaveOptions save;
  JoinAgain join_again;
  bool machine_progress = false;  // lines of recovery_report.h
};

template <typename T>
class HostTraining {
 public:
  // Called in each step, before the update and after it. Either may be empty.
  struct Observers {
    std::function<absl::Status(int64_t step)> audit;
    std::function<void(int64_t step, double loss)> passed;
  };

  // `session` is replaced when an epoch has ended; it and `network` must
  // outlive this object.
  HostTraining(const HostTrainingOptions& options, const TrainingSet& set,
               std::unique_ptr<Session>& session, Network<T>& network,
               Observers observers);

  // Trains to the last step, in as many epochs as it takes. The error is that
  // of the step that failed, if the job does not go on.
  absl::Status Run();

 private:
  struct Epoch {
    BoundGradients<T, Network<T>> bound;
    SavedTraining<T> saved;
    std::unique_ptr<StateReplicas> replicas;  // null: no worker is replaced
  };

  bool is_sliced() const {
    return session_->spec().sync == SyncMode::kReduceScatter;
  }
  bool recovers() const { return epochs_.recovers() && !is_sliced(); }
  std::vector<int64_t> Samples(int64_t step) const;
  Hooks<T> MakeHooks();
  absl::StatusOr<Verdict> BeforeUpdate(int64_t step, double loss);

  absl::Status TrainInOneEpoch();
  absl::Status BeginEpoch();
  void MakeTrainer();
  absl::Status Resume();
  absl::Status GoOn();

  const HostTrainingOptions options_;
  const TrainingSet set_;
  std::unique_ptr<Session>& session_;
  WorkerEpochs epochs_;
  Network<T>& network_;
  const Observers observers_;
  std::optional<Trainer<T>> trainer_;
  std::optional<Epoch> epoch_;  // destroyed before its session
  int64_t step_ = 0;            // the next one
  double loss_ = 0;             // of the step in progress
  bool was_last_ = false;
  bool save_asked_ = false;  // by an operator
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_HOST_TRAINING_H_
