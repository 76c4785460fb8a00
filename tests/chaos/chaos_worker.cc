// A worker that trains chaos_model.h until the job is stopped, whatever happens
// to its job, and writes down what it did (chaos_test.py).
//
//   chaos_worker SEED COMPUTE_MS RECORD WEIGHTS
//
// Appends to the file RECORD "life PID" when it joins without the state, and
// for each step that it has applied
//
//   STEP EPOCH WORLD RANK HASH TIME finish|forward
//
// with the hash of the model after it. Writes the values of the model to the
// file WEIGHTS at the end. Prints, with the time of CLOCK_MONOTONIC in
// nanoseconds,
//
//   "joined EPOCH WORLD TIME"      Session::Join has returned
//   "resumed EPOCH WORLD TIME"     StateReplicas::Resume has
//   "first EPOCH WORLD TIME"       the epoch's first step is applied
//   "ended EPOCH WORLD TIME CAUSE" a step call has failed
//   "recovered EPOCH WORLD TIME"   Session::Recover has returned
//   "done EPOCH WORLD TIME"        it has left the job
//
// and ends with "error ...", code 1, if training does not go on. SIGUSR1 lets
// it stop itself (SIGSTOP) inside its next reduction.

#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/session.h"
#include "lockstep/state_replicas.h"
#include "tests/chaos/chaos_model.h"

namespace {

using lockstep::GradientSync;
using lockstep::ParameterId;
using lockstep::Recovery;
using lockstep::Session;
using lockstep::StateReplicas;
using lockstep::chaos::Model;

long long Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void Say(const char* what, const Session& session,
         const std::string& more = "") {
  std::printf("%s %d %d %lld %s\n", what, static_cast<int>(session.epoch()),
              session.world_size(), Now(), more.c_str());
  std::fflush(stdout);
}

// --- SIGSTOP inside a reduction ---------------------------------------------

std::atomic<bool> stop_wanted = false;
std::atomic<bool> in_reduction = false;

void OnStopWanted(int) { stop_wanted = true; }
void OnAlarm(int) {
  if (in_reduction && stop_wanted.exchange(false)) raise(SIGSTOP);
}

void HandleSignals() {
  struct sigaction action {};
  action.sa_flags = SA_RESTART;
  action.sa_handler = OnStopWanted;
  sigaction(SIGUSR1, &action, nullptr);
  action.sa_handler = OnAlarm;
  sigaction(SIGALRM, &action, nullptr);
}

// From the first Submit of a step to the return of its Finish.
class ReductionScope {
 public:
  ReductionScope() {
    in_reduction = true;
    if (!stop_wanted) return;
    const itimerval soon{.it_interval = {}, .it_value = {0, 200}};
    setitimer(ITIMER_REAL, &soon, nullptr);
  }
  ~ReductionScope() { in_reduction = false; }
};

// --- Training ---------------------------------------------------------------

class Trainer {
 public:
  Trainer(Session& session, Model& model, uint64_t seed, FILE* record)
      : session_(session), model_(model), seed_(seed), record_(record) {}

  absl::Status Begin() {
    auto sync = GradientSync::Create(session_);
    if (!sync.ok()) return sync.status();
    sync_ = *std::move(sync);
    for (auto& tensor : model_.tensors()) {
      const std::vector<int64_t> shape = {
          static_cast<int64_t>(tensor.values.size())};
      auto id = sync_->Register({.name = tensor.name,
                                 .shape = shape,
                                 .dtype = lockstep::DType::kF64,
                                 .op = lockstep::ReduceOp::kSum});
      if (!id.ok()) return id.status();
      ids_.push_back(*id);
      for (auto [name, values] :
           {std::pair{tensor.name, &tensor.values},
            std::pair{absl::StrCat(tensor.name, ".momentum"),
                      &tensor.momentum}}) {
        auto state = session_.RegisterState(
            {.name = name, .dtype = lockstep::DType::kF64, .shape = shape},
            values->data());
        if (!state.ok()) return state.status();
      }
    }
    auto steps = session_.RegisterScalar("steps", model_.steps());
    if (!steps.ok()) return steps.status();
    auto replicas = StateReplicas::Create(session_);
    if (!replicas.ok()) return replicas.status();
    if (absl::Status sealed = sync_->Seal(); !sealed.ok()) return sealed;
    sync_->OnMoved([] {});
    auto resumed = (*replicas)->Resume();
    if (!resumed.ok()) return resumed.status();
    Say("resumed", session_);
    return absl::OkStatus();
  }

  absl::StatusOr<lockstep::Verdict> Step() {
    model_.AddGradients(
        lockstep::ShareOfStep(lockstep::chaos::StreamOf(seed_),
                              model_.steps_applied(), session_.rank(),
                              session_.world_size()),
        Views());
    const ReductionScope scope;
    for (const ParameterId id : ids_) {
      if (absl::Status s = sync_->Submit(id); !s.ok()) return s;
    }
    return sync_->Finish({.samples = 1});
  }

  void Apply(const char* how) {
    model_.Apply(Views());
    std::fprintf(record_, "%" PRId64 " %d %d %d %016" PRIx64 " %lld %s\n",
                 model_.steps_applied(), static_cast<int>(session_.epoch()),
                 session_.world_size(), session_.rank(), model_.Hash(), Now(),
                 how);
    std::fflush(record_);
  }

 private:
  std::vector<absl::Span<double>> Views() {
    std::vector<absl::Span<double>> views;
    for (const ParameterId id : ids_) {
      views.push_back(*sync_->Gradient<double>(id));
    }
    return views;
  }

  Session& session_;
  Model& model_;
  const uint64_t seed_;
  FILE* const record_;
  std::unique_ptr<GradientSync> sync_;
  std::vector<ParameterId> ids_;
};

struct Orders {
  uint64_t seed = 0;
  useconds_t compute_us = 0;
  std::string record;
  std::string weights;
};

// True after the last step of all ranks.
absl::StatusOr<bool> TrainEpoch(Session& session, Trainer& trainer,
                                useconds_t compute_us) {
  if (absl::Status begun = trainer.Begin(); !begun.ok()) return begun;
  for (bool first = true;; first = false) {
    if (compute_us > 0) usleep(compute_us);
    auto verdict = trainer.Step();
    if (!verdict.ok()) return verdict.status();
    trainer.Apply("finish");
    if (first) Say("first", session);
    if (verdict->IsLast()) return true;
    if (verdict->Grows()) return false;
  }
}

void WriteLife(FILE* record) {
  std::fprintf(record, "life %d\n", static_cast<int>(getpid()));
  std::fflush(record);
}

absl::Status Train(const Orders& orders, Model& model, FILE* record) {
  std::optional<Recovery> recovered;
  for (;;) {
    auto session = Session::Join({.recovered = recovered});
    if (!session.ok()) return session.status();
    Say("joined", **session);
    if (!recovered || !recovered->holds_state) WriteLife(record);
    Trainer trainer(**session, model, orders.seed, record);
    auto last = TrainEpoch(**session, trainer, orders.compute_us);
    if (last.ok() && *last) {
      const absl::Status left = (*session)->Leave();
      if (left.ok()) Say("done", **session);
      return left;
    }
    Say("ended", **session, last.ok() ? "grows" : last.status().ToString());
    auto recovery = (*session)->Recover();
    if (!recovery.ok()) return recovery.status();
    if (recovery->verdict) trainer.Apply("forward");
    recovered = *recovery;
    Say("recovered", **session);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: chaos_worker SEED COMPUTE_MS RECORD WEIGHTS\n", stderr);
    return 2;
  }
  HandleSignals();
  const Orders orders{
      .seed = std::strtoull(argv[1], nullptr, 10),
      .compute_us = static_cast<useconds_t>(std::atoi(argv[2])) * 1000,
      .record = argv[3],
      .weights = argv[4]};
  FILE* record = std::fopen(orders.record.c_str(), "a");
  if (record == nullptr) {
    std::fprintf(stderr, "cannot write %s\n", orders.record.c_str());
    return 2;
  }
  Model model(orders.seed);
  const absl::Status status = Train(orders, model, record);
  if (!status.ok()) {
    std::printf("error %s\n", status.ToString().c_str());
    return 1;
  }
  const std::vector<double> values = model.Values();
  std::ofstream(orders.weights, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(double)));
  return 0;
}
