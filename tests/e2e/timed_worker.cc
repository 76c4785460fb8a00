// A worker that says when it trains: for measurements of recovery
// (recovery_times_test.py).
//
//   timed_worker MIB
//
// Trains a model of MIB MiB until it is killed; each step adds 1 to all of it.
// Prints, with the time of CLOCK_MONOTONIC in nanoseconds,
//
//   "ended TIME"                     a step call has failed
//   "joined EPOCH WORLD TIME"        Session::Join has returned
//   "sealed EPOCH WORLD TIME"        GradientSync::Seal has
//   "resumed EPOCH WORLD TIME"       StateReplicas::Resume has
//   "step EPOCH WORLD TIME"          the epoch's first step is applied
//   "second EPOCH WORLD TIME"        its second step is
//
// and ends with "error ...", code 1, if training does not go on or the model is
// not what its steps have made of it.

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/session.h"
#include "lockstep/state_replicas.h"

namespace {

using lockstep::GradientSync;
using lockstep::ParameterId;
using lockstep::Recovery;
using lockstep::Session;
using lockstep::StateReplicas;

constexpr int kParameters = 16;

long long Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void Say(const char* what, const Session& session) {
  std::printf("%s %d %d %lld\n", what, static_cast<int>(session.epoch()),
              session.world_size(), Now());
  std::fflush(stdout);
}

struct Model {
  explicit Model(size_t mib) {
    for (auto& weights : parameters) {
      weights.resize(mib * (size_t{1} << 20) / sizeof(float) / kParameters);
    }
  }
  bool IsWhole() const {
    return std::all_of(
        std::begin(parameters), std::end(parameters), [this](const auto& all) {
          return std::all_of(all.begin(), all.end(), [this](float weight) {
            return weight == static_cast<float>(step);
          });
        });
  }

  std::vector<float> parameters[kParameters];
  int64_t step = 0;
};

class Trainer {
 public:
  Trainer(Session& session, Model& model) : session_(session), model_(model) {}

  absl::Status Begin() {
    auto sync = GradientSync::Create(session_);
    if (!sync.ok()) return sync.status();
    sync_ = *std::move(sync);
    for (int p = 0; p < kParameters; ++p) {
      auto& weights = model_.parameters[p];
      const std::string name = absl::StrCat("w", p);
      const std::vector<int64_t> shape = {static_cast<int64_t>(weights.size())};
      auto id = sync_->Register({.name = name, .shape = shape});
      if (!id.ok()) return id.status();
      ids_.push_back(*id);
      auto state = session_.RegisterState({.name = name, .shape = shape},
                                          weights.data());
      if (!state.ok()) return state.status();
    }
    auto step = session_.RegisterScalar("step", &model_.step);
    if (!step.ok()) return step.status();
    auto replicas = StateReplicas::Create(session_);
    if (!replicas.ok()) return replicas.status();
    if (absl::Status sealed = sync_->Seal(); !sealed.ok()) return sealed;
    Say("sealed", session_);
    auto resumed = (*replicas)->Resume();
    if (!resumed.ok()) return resumed.status();
    Say("resumed", session_);
    return absl::OkStatus();
  }

  absl::Status Step() {
    for (int p = 0; p < kParameters; ++p) {
      const auto gradient = *sync_->Gradient<float>(ids_[p]);
      std::fill(gradient.begin(), gradient.end(), 1.0f);
      if (absl::Status s = sync_->Submit(ids_[p]); !s.ok()) return s;
    }
    auto verdict = sync_->Finish({.samples = 1});
    if (!verdict.ok()) return verdict.status();
    Apply();
    return absl::OkStatus();
  }

  void Apply() {
    for (int p = 0; p < kParameters; ++p) {
      const auto gradient = *sync_->Gradient<float>(ids_[p]);
      float* const weights = model_.parameters[p].data();
      for (size_t i = 0; i < gradient.size(); ++i) weights[i] += gradient[i];
    }
    model_.step += 1;
  }

 private:
  Session& session_;
  Model& model_;
  std::unique_ptr<GradientSync> sync_;
  std::vector<ParameterId> ids_;
};

absl::Status Train(Model& model) {
  std::optional<Recovery> recovered;
  for (;;) {
    auto session = Session::Join({.recovered = recovered});
    if (!session.ok()) return session.status();
    Say("joined", **session);
    Trainer trainer(**session, model);
    absl::Status trained = trainer.Begin();
    for (int steps = 0; trained.ok(); ++steps) {
      trained = trainer.Step();
      if (!trained.ok() || steps > 1) continue;
      Say(steps == 0 ? "step" : "second", **session);
      if (steps == 1 && !model.IsWhole()) {
        return absl::DataLossError(
            "the model is not what its steps made of it");
      }
    }
    std::printf("ended %lld\n", Now());
    std::fflush(stdout);
    auto recovery = (*session)->Recover();
    if (!recovery.ok()) return recovery.status();
    if (recovery->verdict) trainer.Apply();
    recovered = *recovery;
  }
}

}  // namespace

int main(int, char** argv) {
  Model model(static_cast<size_t>(std::atoll(argv[1])));
  const absl::Status status = Train(model);
  std::printf("error %s\n", status.ToString().c_str());
  return 1;
}
