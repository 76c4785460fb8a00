#include "examples/digits/device/device_training.h"

#include <limits>
#include <utility>

#include "lockstep/recovery.h"

namespace lockstep::digits {
namespace {

constexpr char kVelocity[] = "velocity";
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// With run-ahead a loss is fetched this often: that waits for the device.
constexpr int64_t kStepsPerLoss = 10;

}  // namespace

template <typename T>
DeviceTraining<T>::DeviceTraining(DeviceTrainingOptions options,
                                  const TrainingSet& set, Samples samples,
                                  std::unique_ptr<Session>& session,
                                  Network<T>& network)
    : options_(std::move(options)),
      set_(set),
      samples_(std::move(samples)),
      session_(session),
      epochs_(session, options_.join_again, options_.machine_progress),
      host_network_(network) {}

template <typename T>
DeviceTraining<T>::~DeviceTraining() {
  EndEpoch();
}

// Work on the stream still reads and writes the buckets.
template <typename T>
void DeviceTraining<T>::EndEpoch() {
  if (epoch_ && epoch_->device != nullptr) (void)stream().Synchronize();
  epoch_.reset();
}

template <typename T>
absl::Status DeviceTraining<T>::Run() {
  for (;;) {
    const absl::Status trained = TrainInOneEpoch();
    if (trained.ok()) break;
    const bool goes_on = epochs_.has_ended() && epochs_.recovers();
    if (!goes_on || !has_state_) return trained;
    epochs_.Ended(step_);
    const absl::Status gone_on = GoOn();
    if (!gone_on.ok()) return gone_on;
    if (was_last_) break;
  }
  const absl::Status fetched = network_->FetchWeights();
  EndEpoch();
  return fetched;
}

// --- An epoch ----------------------------------------------------------------

template <typename T>
absl::Status DeviceTraining<T>::TrainInOneEpoch() {
  absl::Status done = BeginEpoch();
  return done.ok() ? Steps() : done;
}

template <typename T>
absl::Status DeviceTraining<T>::BeginEpoch() {
  epoch_.emplace();
  auto device = options_.make_device(*session_);
  if (!device.ok()) return device.status();
  epoch_->device = *std::move(device);
  auto scalars = epoch_->device->Allocate(sizeof(VerdictScalars));
  if (!scalars.ok()) return scalars.status();
  epoch_->scalars = *std::move(scalars);
  absl::Status done = MakeNetwork();
  if (done.ok()) done = Bind();
  return done.ok() ? Resume() : done;
}

// Weights and velocities stay in the device's memory from epoch to epoch.
template <typename T>
absl::Status DeviceTraining<T>::MakeNetwork() {
  Device* const device = epoch_->device.get();
  if (network_ != nullptr) {
    network_->Use(device);
    return absl::OkStatus();
  }
  auto made =
      DeviceNetwork<T>::Create(&host_network_, options_.recipe.global_batch,
                               options_.recipe.sgd, device);
  if (!made.ok()) return made.status();
  network_ = *std::move(made);
  return network_->WarmUp();
}

template <typename T>
absl::Status DeviceTraining<T>::Bind() {
  if (epochs_.recovers()) {
    auto replicas = StateReplicas::Create(*session_);
    if (!replicas.ok()) return replicas.status();
    epoch_->replicas = *std::move(replicas);
    const auto step = session_->RegisterScalar("step", &step_);
    if (!step.ok()) return step.status();
  }
  std::vector<std::pair<ParameterId, DeviceParameter<T>*>> registered;
  auto bound = Bound::Bind(
      *network_, *session_,
      [&](GradientSync& sync, ParameterId id, DeviceParameter<T>& parameter) {
        if (!epochs_.recovers()) return absl::OkStatus();
        registered.emplace_back(id, &parameter);
        return sync.RegisterState(
            id, {.value = parameter.value(),
                 .slices = {{.suffix = kVelocity, .dtype = kDType<T>}}});
      });
  if (!bound.ok()) return bound.status();
  epoch_->bound.emplace(*std::move(bound));
  for (const auto& [id, parameter] : registered) {
    absl::Status set =
        sync().SetSliceMemory(id, kVelocity, parameter->velocity());
    if (!set.ok()) return set;
  }
  return absl::OkStatus();
}

// Newcomers get the state from the others.
template <typename T>
absl::Status DeviceTraining<T>::Resume() {
  if (epoch_->replicas == nullptr) return absl::OkStatus();
  const absl::Status idle = stream().Synchronize();
  if (!idle.ok()) return idle;
  const auto resumed = epoch_->replicas->Resume();
  if (!resumed.ok()) return resumed.status();
  epochs_.Resumed(step_, resumed->origin);
  return absl::OkStatus();
}

// --- Steps -------------------------------------------------------------------

// Enqueues each step, then waits for the one that ended run_ahead() steps
// before. Steps behind the last one are void.
template <typename T>
absl::Status DeviceTraining<T>::Steps() {
  absl::Status enqueued;
  while (!was_last_ && enqueued.ok() && next() < options_.recipe.steps) {
    enqueued = Enqueue();
    // With run-ahead the host learns that a step was the last, or was behind
    // the last, after it has enqueued it.
    const bool is_over = absl::IsCancelled(enqueued) && run_ahead() > 0;
    if (!enqueued.ok() && !is_over) return enqueued;
    if (epoch_->in_flight.size() <= run_ahead()) continue;
    absl::Status done = AwaitFirst();
    if (done.ok()) done = Show();
    if (!done.ok()) return done;
  }
  while (!epoch_->in_flight.empty()) {
    const absl::Status ended = AwaitFirst();
    if (!ended.ok() && !was_last_) return ended;
  }
  return was_last_ ? absl::OkStatus() : enqueued;
}

template <typename T>
absl::Status DeviceTraining<T>::Enqueue() {
  const int64_t step = next();
  std::vector<int> rows;
  for (const int64_t sample : samples_(step)) {
    rows.push_back(set_.rows[sample]);
  }
  absl::Status done;
  if (run_ahead() > 0) done = epoch_->bound->BindViews();
  if (done.ok()) done = ComputeGradients(rows);
  if (!done.ok()) return done;
  absl::StatusOr<PendingVerdict> pending =
      sync().FinishAsync({.samples = static_cast<double>(rows.size()),
                          .more_data = step + 1 < options_.recipe.steps},
                         kNoLimit, stream());
  if (!pending.ok()) return pending.status();
  epoch_->in_flight.push_back(*std::move(pending));
  return Update(epoch_->in_flight.back().scalars());
}

// The step may pass without it, or with a part of it.
template <typename T>
absl::Status DeviceTraining<T>::Update(const VerdictScalars* scalars) {
  const absl::Status enqueued = network_->Update(scalars);
  if (!enqueued.ok()) has_state_ = false;
  return enqueued;
}

template <typename T>
absl::Status DeviceTraining<T>::ComputeGradients(const std::vector<int>& rows) {
  if (session_->spec().sync == SyncMode::kNegotiated) {
    absl::Status begun = epoch_->bound->BeginPass();
    if (!begun.ok()) return begun;
  }
  return network_->ComputeGradients(
      Images<T>(set_.dataset, rows), Labels(set_.dataset, rows),
      options_.recipe.global_batch, [this](DeviceParameter<T>& parameter) {
        return epoch_->bound->Submit(parameter, stream());
      });
}

template <typename T>
absl::Status DeviceTraining<T>::AwaitFirst() {
  const absl::StatusOr<lockstep::Verdict> verdict =
      epoch_->in_flight.front().Wait();
  epoch_->in_flight.pop_front();
  if (!verdict.ok()) return verdict.status();
  was_last_ |= verdict->IsLast();
  step_ += 1;
  return absl::OkStatus();
}

// The loss of the step that was enqueued last; waits for it.
template <typename T>
absl::Status DeviceTraining<T>::Show() {
  const bool is_shown = run_ahead() == 0 || next() % kStepsPerLoss == 0;
  if (!options_.after_update || !is_shown) return absl::OkStatus();
  const absl::StatusOr<double> loss = network_->FetchLoss();
  if (loss.ok()) options_.after_update(next() - 1, *loss);
  return loss.status();
}

// --- The end of an epoch -----------------------------------------------------

// Carries the recovery out, and joins the next epoch unless there is none.
template <typename T>
absl::Status DeviceTraining<T>::GoOn() {
  // Some of the steps in flight may have passed, in their order.
  while (!epoch_->in_flight.empty()) (void)AwaitFirst();
  if (epoch_->device != nullptr) (void)stream().Synchronize();
  const absl::StatusOr<Recovery> recovery = epochs_.Recover();
  if (!recovery.ok()) return recovery.status();
  if (recovery->verdict) {
    absl::Status applied = RollForward(*recovery->verdict);
    if (!applied.ok()) return applied;
  }
  if (was_last_) return absl::OkStatus();
  EndEpoch();
  return epochs_.JoinNext();
}

// The step's own scalars say that this rank's device did not see it commit.
template <typename T>
absl::Status DeviceTraining<T>::RollForward(const lockstep::Verdict& verdict) {
  const VerdictScalars scalars = {
      .commit = 1,
      .finite = verdict.finite ? 1.0 : 0.0,
      .clip = verdict.UpdateFactor(kNoLimit),
      .samples = verdict.samples,
  };
  std::byte* const there = epoch_->scalars.data();
  absl::Status done = epoch_->bound->BindViews();
  if (done.ok()) {
    done = epoch_->device->Upload(&scalars, there, sizeof(scalars));
  }
  if (done.ok()) {
    done = Update(reinterpret_cast<const VerdictScalars*>(there));
  }
  if (done.ok()) done = stream().Synchronize();
  if (!done.ok()) return done;
  was_last_ = verdict.IsLast();
  step_ += 1;
  return absl::OkStatus();
}

template class DeviceTraining<float>;
template class DeviceTraining<double>;

}  // namespace lockstep::digits
