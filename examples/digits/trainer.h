// The training loop, with hooks for communication between workers.
//
//   Step(s)   step_begins()
//             zero gradients
//             forward, loss           on samples(s): this worker's share
//             backward ─────────────▶ gradient_ready(parameter), last one first
//             before_update(s, loss)  all gradients are in: wait for the sum
//             update
//             after_update(s, loss)
//
// With empty hooks this is training in one process. A worker of a job binds the
// gradients to its buckets, submits each in gradient_ready, and waits for the
// reduced ones in before_update.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_TRAINER_H_
#define LOCKSTEP_EXAMPLES_DIGITS_TRAINER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "examples/digits/dataset.h"
#include "examples/digits/network.h"
#include "examples/digits/sgd.h"

namespace lockstep::digits {

// Returns this worker's samples of a step: positions in the training set.
using Samples = std::function<std::vector<int64_t>(int64_t step)>;

// Parameters that all workers of a job must share. With the defaults 98 % of
// the test rows are classified correctly.
struct Recipe {
  int64_t steps = 400;
  uint64_t seed = 1;          // for weights and samples
  int64_t global_batch = 64;  // samples per step, over all workers
  SgdOptions sgd;
  // The number of equal parts of this worker's samples. Each part goes through
  // the network separately, and gradient_ready is called for each.
  int leaves = 1;
};

enum class Verdict { kApply, kSkip };

// Every hook may be empty. `loss` is this worker's part of the mean over the
// global batch: the sum over workers is the batch's loss.
template <typename T>
struct Hooks {
  std::function<absl::Status()> step_begins;
  std::function<absl::Status(Parameter<T>&)> parameter_needed;
  std::function<absl::Status(Parameter<T>&)> gradient_ready;
  std::function<absl::StatusOr<Verdict>(int64_t step, double loss)>
      before_update;
  std::function<void(int64_t step, double loss)> after_update;
  // Whether the step that just ended was the last; Run then returns.
  std::function<bool()> was_last;
};

// Rows of a dataset; the dataset must outlive it.
struct TrainingSet {
  const Dataset& dataset;
  std::vector<int> rows;
};

template <typename T>
class Trainer {
 public:
  // `network` must outlive the trainer.
  Trainer(Network<T>& network, const Recipe& recipe, TrainingSet training_set,
          Samples samples, Hooks<T> hooks);

  // Runs one step. A failed step has changed no weight and may be repeated.
  // Errors: those of the hooks.
  absl::Status Step(int64_t step);

  // Runs steps first .. last-1, until one fails or was the last.
  absl::Status Run(int64_t first, int64_t last);

  // The two halves of Step, for workers that recover in between.
  absl::StatusOr<double> ComputeGradients(int64_t step);
  void ApplyUpdate() { sgd_.Update(); }

  Sgd<T>& sgd() { return sgd_; }

  // As Recipe::leaves, from the next step on.
  void SetLeaves(int leaves) { leaves_ = leaves; }

 private:
  // Forward and backward of these rows; returns the loss.
  absl::StatusOr<double> ComputeLeaf(absl::Span<const int> rows);
  // Calls the hook; OK if it is empty.
  static absl::Status Notify(
      const std::function<absl::Status(Parameter<T>&)>& hook,
      Parameter<T>& parameter);
  absl::StatusOr<Verdict> Agree(int64_t step, double loss);

  Network<T>& network_;
  Sgd<T> sgd_;
  const TrainingSet training_set_;
  const int64_t global_batch_;
  int leaves_;
  const Samples samples_;
  const Hooks<T> hooks_;
};

// The fraction of these rows that the network classifies correctly, in 0..1.
template <typename T>
double Accuracy(const Network<T>& network, const Dataset& dataset,
                absl::Span<const int> rows);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_TRAINER_H_
