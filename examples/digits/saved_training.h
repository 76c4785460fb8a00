// Registers the state of a training, saves it to checkpoints, and goes on from
// one.
//
//   SavedTraining<double> saved(options, session, recipe, samples);
//   ... saved.Register(sync, id, parameter) for each, before Seal ...
//   first = saved.Open(trainer.sgd());           // the step to begin with
//   ... saved.Passed(step, asked) after each update ...
//   saved.Finish();
//
// The state is each parameter's value, "conv1.weight", and the velocity of its
// optimizer, "conv1.weight.velocity".
//
// Threads: the training's.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_SAVED_TRAINING_H_
#define LOCKSTEP_EXAMPLES_DIGITS_SAVED_TRAINING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/digits/parameter.h"
#include "examples/digits/save_options.h"
#include "examples/digits/sgd.h"
#include "examples/digits/trainer.h"
#include "lockstep/checkpointer.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/session.h"

namespace lockstep::digits {

template <typename T>
class SavedTraining {
 public:
  // `session` must outlive it. `dataset_size`: samples to train with.
  SavedTraining(const SaveOptions& options, Session& session,
                const Recipe& recipe, int64_t dataset_size);

  // `parameter` must outlive this object.
  absl::Status Register(GradientSync& sync, ParameterId id,
                        Parameter<T>& parameter);

  // Once the sync is sealed and the optimizer exists, on all ranks; `sgd` must
  // outlive this object. Returns the step to begin with. FailedPrecondition if
  // the checkpoint is of another training.
  absl::StatusOr<int64_t> Open(Sgd<T>& sgd);
  // Null without a folder.
  AsyncCheckpointer* checkpointer() const { return checkpointer_.get(); }

  // The update of a step was applied. Saves after every options.save_every
  // steps, and if `asked`. A save that fails is a warning: training goes on.
  void Passed(int64_t step, bool asked);

  // Waits for the last save; its error.
  absl::Status Finish();

 private:
  TrainingState StateAfter(int64_t steps) const;
  absl::Status CheckRecipe(const TrainingState& saved) const;

  const SaveOptions options_;
  Session& session_;
  const Recipe recipe_;
  const int64_t dataset_size_;
  GradientSync* sync_ = nullptr;
  std::vector<ParameterId> ids_;  // in the order of the network's parameters
  std::unique_ptr<AsyncCheckpointer> checkpointer_;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_SAVED_TRAINING_H_
