// A worker that goes on training when another one has died.
//
//   recovering_worker STEPS [WORKER STEP]
//
// WORKER raises SIGKILL before STEP, unless it was started again; if STEP is
// STEPS, after its last step. Each step
// adds 1 to the state. Prints "epoch E from step N" when it begins to train,
// "recovered N" when it has recovered from the end of an epoch, then "done N",
// with the state, or "error CODE: message".

#include <signal.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/gradient_sync.h"
#include "lockstep/session.h"
#include "lockstep/state_replicas.h"

namespace {

using lockstep::GradientSync;
using lockstep::Recovery;
using lockstep::Session;
using lockstep::StateReplicas;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct Orders {
  int64_t steps = 0;
  int64_t die_at = -1;
};

Orders Parse(int argc, char** argv) {
  Orders orders{.steps = std::atoll(argv[1])};
  const bool dies = argc > 3 && Variable("LOCKSTEP_WORKER_NAME") == argv[2] &&
                    Variable("LOCKSTEP_RESTART_COUNT") == "0";
  if (dies) orders.die_at = std::atoll(argv[3]);
  return orders;
}

struct Model {
  int64_t step = 0;
  std::vector<float> weights = std::vector<float>(4);

  void Advance() {
    step += 1;
    for (float& weight : weights) weight += 1;
  }
};

absl::Status TrainEpoch(Session& session, GradientSync& sync,
                        const Orders& orders, Model* model) {
  auto id = sync.Register({.name = "w", .shape = {4}});
  if (!id.ok()) return id.status();
  auto weights =
      session.RegisterState({.name = "w", .shape = {4}}, model->weights.data());
  if (!weights.ok()) return weights.status();
  auto step = session.RegisterScalar("step", &model->step);
  if (!step.ok()) return step.status();
  auto replicas = StateReplicas::Create(session);
  if (!replicas.ok()) return replicas.status();
  if (absl::Status sealed = sync.Seal(); !sealed.ok()) return sealed;
  auto resumed = (*replicas)->Resume();
  if (!resumed.ok()) return resumed.status();
  std::printf("epoch %d from step %d\n", static_cast<int>(session.epoch()),
              static_cast<int>(model->step));
  std::fflush(stdout);
  while (model->step < orders.steps) {
    if (model->step == orders.die_at) raise(SIGKILL);
    if (absl::Status s = sync.Submit(*id); !s.ok()) return s;
    auto verdict = sync.Finish(
        {.samples = 1, .more_data = model->step + 1 < orders.steps});
    if (!verdict.ok()) return verdict.status();
    model->Advance();
  }
  if (model->step == orders.die_at) raise(SIGKILL);
  return absl::OkStatus();
}

absl::Status Train(const Orders& orders, Model* model) {
  std::optional<Recovery> recovered;
  for (;;) {
    auto session = Session::Join({.recovered = recovered});
    if (!session.ok()) return session.status();
    auto sync = GradientSync::Create(**session);
    if (!sync.ok()) return sync.status();
    const absl::Status trained = TrainEpoch(**session, **sync, orders, model);
    if (trained.ok()) return (*session)->Leave();
    auto recovery = (*session)->Recover();
    if (!recovery.ok()) return recovery.status();
    if (recovery->verdict) model->Advance();
    if (recovery->verdict && recovery->verdict->IsLast()) {
      return (*session)->Leave();
    }
    recovered = *recovery;
    std::printf("recovered %d\n", static_cast<int>(model->step));
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Model model;
  const absl::Status status = Train(Parse(argc, argv), &model);
  if (status.ok()) {
    std::printf("done %d\n", static_cast<int>(model.weights[3]));
    return 0;
  }
  std::printf("error %s: %s\n", absl::StatusCodeToString(status.code()).c_str(),
              std::string(status.message()).c_str());
  return 1;
}
