#include "examples/digits/host_training.h"

#include <utility>
#include <vector>

#include "lockstep/recovery.h"

namespace lockstep::digits {

template <typename T>
HostTraining<T>::HostTraining(const HostTrainingOptions& options,
                              const TrainingSet& set,
                              std::unique_ptr<Session>& session,
                              Network<T>& network, Observers observers)
    : options_(options),
      set_(set),
      session_(session),
      epochs_(session, options_.join_again, options_.machine_progress),
      network_(network),
      observers_(std::move(observers)) {}

template <typename T>
std::vector<int64_t> HostTraining<T>::Samples(int64_t step) const {
  const SampleStream stream{
      .seed = options_.recipe.seed,
      .dataset_size = static_cast<int64_t>(set_.rows.size()),
      .global_batch = options_.recipe.global_batch};
  return ShareOfStep(stream, step, session_->rank(), session_->world_size());
}

template <typename T>
Hooks<T> HostTraining<T>::MakeHooks() {
  Hooks<T> hooks;
  if (session_->spec().sync == SyncMode::kNegotiated) {
    hooks.step_begins = [this] { return epoch_->bound.BeginPass(); };
  }
  if (is_sliced()) {
    hooks.step_begins = [this] {
      return epoch_->bound.sync().GatherParameters();
    };
    hooks.parameter_needed = [this](Parameter<T>& p) {
      return epoch_->bound.Await(p);
    };
  }
  hooks.was_last = [this] { return was_last_; };
  hooks.gradient_ready = [this](Parameter<T>& parameter) {
    return epoch_->bound.Submit(parameter);
  };
  hooks.before_update = [this](int64_t step, double loss) {
    return BeforeUpdate(step, loss);
  };
  hooks.after_update = [this](int64_t step, double loss) {
    step_ = step + 1;
    epoch_->saved.Passed(step, save_asked_);
    if (observers_.passed) observers_.passed(step, loss);
  };
  return hooks;
}

template <typename T>
absl::StatusOr<Verdict> HostTraining<T>::BeforeUpdate(int64_t step,
                                                      double loss) {
  loss_ = loss;
  const double mine = static_cast<double>(Samples(step).size());
  absl::StatusOr<lockstep::Verdict> verdict =
      epoch_->bound.sync().Finish({.samples = mine});
  if (!verdict.ok()) return verdict.status();
  was_last_ = verdict->IsLast();
  save_asked_ = verdict->Holds(Command::kSave);
  if (!verdict->finite) return Verdict::kSkip;
  if (observers_.audit) {
    absl::Status same = observers_.audit(step);
    if (!same.ok()) return same;
  }
  return Verdict::kApply;
}

template <typename T>
absl::Status HostTraining<T>::Run() {
  for (;;) {
    const absl::Status trained = TrainInOneEpoch();
    if (trained.ok()) return trained;
    if (!epochs_.has_ended() || !recovers()) return trained;
    epochs_.Ended(step_);
    if (absl::Status joined = GoOn(); !joined.ok()) return joined;
    if (was_last_) return absl::OkStatus();
  }
}

template <typename T>
absl::Status HostTraining<T>::TrainInOneEpoch() {
  if (absl::Status begun = BeginEpoch(); !begun.ok()) return begun;
  absl::Status trained = trainer_->Run(step_, options_.recipe.steps);
  if (trained.ok()) trained = epoch_->saved.Finish();
  if (trained.ok() && is_sliced()) trained = epoch_->bound.Settle();
  if (trained.ok()) epoch_.reset();
  return trained;
}

template <typename T>
absl::Status HostTraining<T>::BeginEpoch() {
  SaveOptions save = options_.save;
  save.recovers = recovers();
  // Later epochs, and newcomers to them, get the state from Resume.
  save.resume = save.resume && session_->epoch() == 1;
  SavedTraining<T> saved(save, *session_, options_.recipe,
                         static_cast<int64_t>(set_.rows.size()));
  std::unique_ptr<StateReplicas> replicas;
  if (recovers()) {
    auto made = StateReplicas::Create(*session_);
    if (!made.ok()) return made.status();
    replicas = *std::move(made);
    const auto step = session_->RegisterScalar("step", &step_);
    if (!step.ok()) return step.status();
  }
  auto bound = BoundGradients<T, Network<T>>::Bind(
      network_, *session_,
      [&](GradientSync& sync, ParameterId id, Parameter<T>& parameter) {
        return saved.Register(sync, id, parameter);
      });
  if (!bound.ok()) return bound.status();
  epoch_.emplace(
      Epoch{*std::move(bound), std::move(saved), std::move(replicas)});
  if (is_sliced()) epoch_->bound.BindValues();
  if (!trainer_) MakeTrainer();
  const int leaves = session_->spec().reproducible.leaves;
  if (leaves > 0) trainer_->SetLeaves(leaves / session_->world_size());
  const absl::StatusOr<int64_t> first = epoch_->saved.Open(trainer_->sgd());
  if (!first.ok()) return first.status();
  if (save.resume) step_ = *first;
  return epoch_->replicas == nullptr ? absl::OkStatus() : Resume();
}

// The optimizer has the sizes of the values, which slices have once they are
// bound.
template <typename T>
void HostTraining<T>::MakeTrainer() {
  trainer_.emplace(
      network_, options_.recipe, set_,
      [this](int64_t step) { return Samples(step); }, MakeHooks());
}

template <typename T>
absl::Status HostTraining<T>::Resume() {
  const auto resumed = epoch_->replicas->Resume(epoch_->saved.checkpointer());
  if (!resumed.ok()) return resumed.status();
  if (resumed->training) step_ = resumed->training->step;
  epochs_.Resumed(step_, resumed->origin);
  return absl::OkStatus();
}

// Carries the recovery out, and joins the next epoch unless there is none.
template <typename T>
absl::Status HostTraining<T>::GoOn() {
  const absl::StatusOr<Recovery> recovery = epochs_.Recover();
  if (!recovery.ok()) return recovery.status();
  if (recovery->verdict) {
    if (recovery->verdict->finite) trainer_->ApplyUpdate();
    if (observers_.passed) observers_.passed(step_, loss_);
    step_ += 1;
    was_last_ = recovery->verdict->IsLast() || step_ == options_.recipe.steps;
  }
  epoch_.reset();
  return was_last_ ? absl::OkStatus() : epochs_.JoinNext();
}

template class HostTraining<float>;
template class HostTraining<double>;

}  // namespace lockstep::digits
