#include "examples/digits/device/device_training.h"

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "examples/digits/bound_gradients.h"
#include "examples/digits/device/device_network.h"

namespace lockstep::digits {
namespace {

template <typename T>
class Worker {
 public:
  Worker(const Recipe& recipe, const TrainingSet& training_set,
         const Samples& samples, Session& session, Device& device)
      : recipe_(recipe),
        training_set_(training_set),
        samples_(samples),
        session_(session),
        device_(device) {}
  // Work on the stream still reads and writes the buckets.
  ~Worker() { (void)device_.stream().Synchronize(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  absl::Status Begin(Network<T>* network) {
    auto on_device = DeviceNetwork<T>::Create(network, recipe_.global_batch,
                                              recipe_.sgd, &device_);
    if (!on_device.ok()) return on_device.status();
    network_ = *std::move(on_device);
    absl::Status warmed = network_->WarmUp();
    if (!warmed.ok()) return warmed;
    auto bound = Bound::Bind(*network_, session_);
    if (!bound.ok()) return bound.status();
    bound_ = std::make_unique<Bound>(*std::move(bound));
    return absl::OkStatus();
  }

  // Returns the loss, and whether the step was the last of all ranks.
  absl::StatusOr<double> Step(int64_t step, bool* was_last) {
    std::vector<int> rows;
    for (const int64_t sample : samples_(step)) {
      rows.push_back(training_set_.rows[sample]);
    }
    absl::Status done = Compute(rows);
    if (!done.ok()) return done;
    absl::StatusOr<PendingVerdict> pending = bound_->sync().FinishAsync(
        {.samples = static_cast<double>(rows.size())},
        /*max_norm=*/std::numeric_limits<double>::infinity(), device_.stream());
    if (!pending.ok()) return pending.status();
    done = network_->Update(pending->scalars());
    absl::StatusOr<lockstep::Verdict> verdict = pending->Wait();
    if (!verdict.ok()) return verdict.status();
    if (!done.ok()) return done;
    *was_last = verdict->IsLast();
    return network_->FetchLoss();
  }

  absl::Status End() { return network_->FetchWeights(); }

 private:
  using Bound = BoundGradients<T, DeviceNetwork<T>>;

  absl::Status Compute(const std::vector<int>& rows) {
    if (session_.spec().sync == SyncMode::kNegotiated) {
      if (absl::Status begun = bound_->BeginPass(); !begun.ok()) return begun;
    }
    return network_->ComputeGradients(
        Images<T>(training_set_.dataset, rows),
        Labels(training_set_.dataset, rows), recipe_.global_batch,
        [this](DeviceParameter<T>& parameter) {
          return bound_->Submit(parameter, device_.stream());
        });
  }

  const Recipe& recipe_;
  const TrainingSet& training_set_;
  const Samples& samples_;
  Session& session_;
  Device& device_;
  std::unique_ptr<DeviceNetwork<T>> network_;
  std::unique_ptr<Bound> bound_;
};

}  // namespace

template <typename T>
absl::Status TrainOnDevice(
    const Recipe& recipe, const TrainingSet& training_set,
    const Samples& samples, Session& session, Device& device,
    Network<T>& network,
    const std::function<void(int64_t step, double loss)>& after_update) {
  Worker<T> worker(recipe, training_set, samples, session, device);
  if (absl::Status begun = worker.Begin(&network); !begun.ok()) return begun;
  bool was_last = false;
  for (int64_t step = 0; step < recipe.steps && !was_last; ++step) {
    const absl::StatusOr<double> loss = worker.Step(step, &was_last);
    if (!loss.ok()) return loss.status();
    if (after_update) after_update(step, *loss);
  }
  return worker.End();
}

template absl::Status TrainOnDevice(
    const Recipe&, const TrainingSet&, const Samples&, Session&, Device&,
    Network<float>&, const std::function<void(int64_t, double)>&);
template absl::Status TrainOnDevice(
    const Recipe&, const TrainingSet&, const Samples&, Session&, Device&,
    Network<double>&, const std::function<void(int64_t, double)>&);

}  // namespace lockstep::digits
