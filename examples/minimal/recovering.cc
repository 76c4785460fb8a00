// minimal.cc, made to survive the death of workers: the others go on, and one
// that is started again receives the state from them.
//
//   lockstepctl run -n 4 --restarts 3 -- recovering 1000

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "lockstep/gradient_sync.h"
#include "lockstep/session.h"
#include "lockstep/state_replicas.h"

namespace {

struct Model {
  int64_t step = 0;
  float w = 0;
};

// The training in one epoch. Any of its calls may fail since the epoch ended.
class Training {
 public:
  Training(lockstep::Session& session, Model& model)
      : session_(session), model_(model) {}

  absl::Status Begin() {
    auto sync = lockstep::GradientSync::Create(session_);
    if (!sync.ok()) return sync.status();
    sync_ = *std::move(sync);
    auto id = sync_->Register({.name = "w", .shape = {1}});
    if (!id.ok()) return id.status();
    id_ = *id;
    auto w = session_.RegisterState({.name = "w", .shape = {1}}, &model_.w);
    if (!w.ok()) return w.status();
    auto step = session_.RegisterScalar("step", &model_.step);
    if (!step.ok()) return step.status();
    auto replicas = lockstep::StateReplicas::Create(session_);
    if (!replicas.ok()) return replicas.status();
    if (auto sealed = sync_->Seal(); !sealed.ok()) return sealed;
    return (*replicas)->Resume().status();  // newcomers receive `model_`
  }

  absl::StatusOr<lockstep::Verdict> Step(int64_t steps) {
    const float x = 1.0f + session_.rank(), y = 3 * x;
    auto gradient = sync_->Gradient<float>(id_);
    if (!gradient.ok()) return gradient.status();
    (*gradient)[0] = 2 * (model_.w * x - y) * x;
    if (auto sent = sync_->Submit(id_); !sent.ok()) return sent;
    auto verdict =
        sync_->Finish({.samples = 1, .more_data = model_.step + 1 < steps});
    if (verdict.ok()) Update(*verdict);
    return verdict;
  }

  // With the mean gradient, which is in its bucket.
  void Update(const lockstep::Verdict& verdict) {
    const float mean = (*sync_->Gradient<float>(id_))[0];
    if (verdict.finite) model_.w -= 0.02f * mean;
    if (++model_.step % 100 > 0) return;
    std::printf("step %d: w = %.3f\n", static_cast<int>(model_.step), model_.w);
    std::fflush(stdout);
  }

 private:
  lockstep::Session& session_;
  Model& model_;
  std::unique_ptr<lockstep::GradientSync> sync_;
  lockstep::ParameterId id_;
};

// OK if all have done the last step; else why this epoch is over.
absl::Status TrainInOneEpoch(Training& training, int64_t steps) {
  if (auto begun = training.Begin(); !begun.ok()) return begun;
  for (;;) {
    auto verdict = training.Step(steps);
    if (!verdict.ok()) return verdict.status();
    if (verdict->IsLast()) return absl::OkStatus();
  }
}

absl::Status Train(int64_t steps) {
  Model model;
  std::optional<lockstep::Recovery> recovered;
  for (;;) {
    auto session = lockstep::Session::Join({.recovered = recovered});
    if (!session.ok()) return session.status();
    Training training(**session, model);
    const absl::Status trained = TrainInOneEpoch(training, steps);
    if (trained.ok()) return (*session)->Leave();
    auto recovery = (*session)->Recover();  // waits for the other survivors
    if (!recovery.ok())
      return trained;         // an error of this program, or the
                              // job does not go on
    if (recovery->verdict) {  // others have applied the step in progress
      training.Update(*recovery->verdict);
      if (recovery->verdict->IsLast()) return (*session)->Leave();
    }
    recovered = *recovery;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status trained = Train(argc > 1 ? std::atoll(argv[1]) : 1000);
  if (!trained.ok()) std::puts(trained.ToString().c_str());
  return trained.ok() ? 0 : 1;
}
