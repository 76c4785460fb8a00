#include "examples/digits/device/device_training.h"

#include <cstddef>
#include <deque>
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

  // Enqueues a step, then waits for the one that ended run_ahead() steps
  // before. False once no more are to be enqueued.
  absl::StatusOr<bool> Step(int64_t step) {
    const absl::Status enqueued = Enqueue(step);
    // With run-ahead the host learns that a step was the last, or was behind
    // the last, after it has enqueued it.
    if (absl::IsCancelled(enqueued) && run_ahead() > 0) {
      over_ = enqueued;
      return false;
    }
    if (!enqueued.ok()) return enqueued;
    if (in_flight_.size() <= run_ahead()) return true;
    const absl::Status ended = AwaitFirst();
    if (!ended.ok()) return ended;
    return !was_last_;
  }

  // The loss of the step that was enqueued last; waits for it.
  absl::StatusOr<double> Loss() { return network_->FetchLoss(); }

  // Waits for the steps in flight. Those behind the last are void.
  absl::Status End() {
    while (!in_flight_.empty()) {
      const absl::Status ended = AwaitFirst();
      if (!ended.ok() && !was_last_) return ended;
    }
    if (!over_.ok() && !was_last_) return over_;
    return network_->FetchWeights();
  }

  size_t run_ahead() const {
    return static_cast<size_t>(session_.spec().run_ahead);
  }

 private:
  using Bound = BoundGradients<T, DeviceNetwork<T>>;

  absl::Status Enqueue(int64_t step) {
    std::vector<int> rows;
    for (const int64_t sample : samples_(step)) {
      rows.push_back(training_set_.rows[sample]);
    }
    absl::Status done;
    if (run_ahead() > 0) done = bound_->BindViews();
    if (done.ok()) done = Compute(rows);
    if (!done.ok()) return done;
    absl::StatusOr<PendingVerdict> pending = bound_->sync().FinishAsync(
        {.samples = static_cast<double>(rows.size())},
        /*max_norm=*/std::numeric_limits<double>::infinity(), device_.stream());
    if (!pending.ok()) return pending.status();
    in_flight_.push_back(*std::move(pending));
    return network_->Update(in_flight_.back().scalars());
  }

  absl::Status AwaitFirst() {
    const absl::StatusOr<lockstep::Verdict> verdict = in_flight_.front().Wait();
    in_flight_.pop_front();
    if (verdict.ok()) was_last_ |= verdict->IsLast();
    return verdict.status();
  }

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
  std::deque<PendingVerdict> in_flight_;
  bool was_last_ = false;
  absl::Status over_;  // why no step could be enqueued
};

// With run-ahead a loss is fetched this often: that waits for the device.
constexpr int64_t kStepsPerLoss = 10;

}  // namespace

template <typename T>
absl::Status TrainOnDevice(
    const Recipe& recipe, const TrainingSet& training_set,
    const Samples& samples, Session& session, Device& device,
    Network<T>& network,
    const std::function<void(int64_t step, double loss)>& after_update) {
  Worker<T> worker(recipe, training_set, samples, session, device);
  if (absl::Status begun = worker.Begin(&network); !begun.ok()) return begun;
  bool goes_on = true;
  for (int64_t step = 0; step < recipe.steps && goes_on; ++step) {
    const absl::StatusOr<bool> enqueued = worker.Step(step);
    if (!enqueued.ok()) return enqueued.status();
    goes_on = *enqueued;
    const bool is_shown =
        worker.run_ahead() == 0 || (step + 1) % kStepsPerLoss == 0;
    if (!after_update || !is_shown) continue;
    const absl::StatusOr<double> loss = worker.Loss();
    if (!loss.ok()) return loss.status();
    after_update(step, *loss);
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
