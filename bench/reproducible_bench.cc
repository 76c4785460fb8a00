// The cost of sums with the same bits on any number of ranks: steps of a job
// with reproducible.leaves compared to those of the same job without,
// alternating in one run; medians. Two ranks, 25 MiB of f32 gradients in four
// buckets, each copied from a buffer of the caller. With more leaves than ranks
// the job without accumulates as many micro-batches (NoSync).
//
//   transport leaves   plain ms   reproducible ms   ratio

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "client/gradient/engine.h"
#include "client/transport/gloo/gloo.h"
#include "client/transport/shm/shm.h"
#include "plan/compile.h"

namespace lockstep::gradient {
namespace {

constexpr int kRanks = 2;
constexpr int kParameters = 16;
constexpr int64_t kElements = (25 << 20) / 4 / kParameters;
constexpr int kRounds = 15;

using MakeTransport = std::function<std::unique_ptr<transport::Transport>()>;

void OnEachRank(const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

// A job whose ranks are threads.
class Job {
 public:
  Job(const MakeTransport& make, int leaves, int parts) : parts_(parts) {
    plan::PlanInput input{.mesh = {{{"data", kRanks}}},
                          .policy = {.bytes_max = 8 << 20}};
    for (int p = 0; p < kParameters; ++p) {
      names_.push_back("p" + std::to_string(p));
      parameters_.push_back({.name = names_.back(), .shape = {kElements}});
    }
    input.registrations.assign(kRanks, parameters_);
    input.leaves = leaves;
    for (Rank& rank : ranks_) {
      rank.transport = make();
      input.transports.push_back(rank.transport->facts());
    }
    plan_ = *plan::Compile(input);
    OnEachCommunicator();
    for (int r = 0; r < kRanks; ++r) MakeEngine(r);
    gradient_.assign(kElements, 0.5f);
  }

  // Returns the duration of a step in milliseconds.
  double Step() {
    const auto began = std::chrono::steady_clock::now();
    OnEachRank([this](int rank) { StepOn(*ranks_[rank].engine); });
    return std::chrono::duration<double, std::milli>(
               std::chrono::steady_clock::now() - began)
        .count();
  }

 private:
  struct Rank {
    std::unique_ptr<transport::Transport> transport;
    std::unique_ptr<Arena> arena;
    std::vector<std::unique_ptr<Communicator>> communicators;
    std::unique_ptr<Engine> engine;
  };

  void OnEachCommunicator() {
    for (const plan::CommunicatorSpec& communicator : plan_.communicators) {
      std::vector<std::unique_ptr<transport::PendingGroup>> pending;
      std::vector<std::string> handles;
      for (int r = 0; r < kRanks; ++r) {
        pending.push_back(*ranks_[r].transport->Prepare(
            {.name = communicator.name, .rank = r, .size = kRanks}));
        handles.push_back(pending.back()->handle());
      }
      OnEachRank([&](int r) {
        ranks_[r].communicators.push_back(
            *pending[r]->Connect(handles, absl::Seconds(60)));
      });
    }
  }

  void MakeEngine(int r) {
    Rank& rank = ranks_[r];
    rank.arena = rank.transport->MakeArena();
    auto engine = Engine::Create(
        {.epoch = {1},
         .plan = plan_,
         .rank = r,
         .executor =
             *executor::Executor::Create(std::move(rank.communicators),
                                         *rank.transport->MakeDeviceContext()),
         .names = names_,
         .uses = std::vector<int>(kParameters, 1),
         .allocate = [arena = rank.arena.get()](
                         size_t bytes) { return arena->Allocate(bytes); },
         .clock = &clock_,
         .on_failure =
             [](int, const absl::Status& error) {
               Fatal(error.ToString().c_str());
             },
         .explain = [](const absl::Status& error) { return error; }});
    Check(engine.ok(), "the engine could not be made");
    rank.engine = *std::move(engine);
  }

  void StepOn(Engine& engine) {
    const bool accumulates = parts_ > 1 && plan_.buckets[0].leaves == 0;
    for (int part = 0; part < parts_; ++part) {
      const bool holds = accumulates && part + 1 < parts_;
      if (holds) Check(engine.BeginNoSync().ok(), "NoSync was refused");
      for (int p = kParameters - 1; p >= 0; --p) {
        Check(
            engine
                .Submit(p, gradient_.data(), kElements * sizeof(float), nullptr)
                .ok(),
            "a Submit was refused");
      }
      if (holds) engine.EndNoSync();
    }
    auto verdict = engine.Finish(
        {.samples = 1}, std::numeric_limits<double>::infinity(), nullptr);
    Check(verdict.ok() && (*verdict)->Wait().ok(), "a step failed");
  }

  const int parts_;  // of a rank's batch
  SystemClock clock_;
  std::vector<std::string> names_;
  std::vector<Parameter> parameters_;
  plan::Plan plan_;
  std::vector<float> gradient_;
  Rank ranks_[kRanks];
};

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

void Compare(const char* name, const MakeTransport& make, int leaves) {
  const int parts = leaves / kRanks;
  Job plain(make, 0, parts);
  Job reproducible(make, leaves, parts);
  std::vector<double> plain_ms;
  std::vector<double> reproducible_ms;
  for (int round = -2; round < kRounds; ++round) {
    const double a = plain.Step();
    const double b = reproducible.Step();
    if (round < 0) continue;  // the first round touches the memory
    plain_ms.push_back(a);
    reproducible_ms.push_back(b);
  }
  const double a = Median(plain_ms);
  const double b = Median(reproducible_ms);
  std::printf("%-9s %6d   %8.2f   %15.2f   %5.2f\n", name, leaves, a, b, b / a);
  std::fflush(stdout);
}

}  // namespace
}  // namespace lockstep::gradient

int main() {
  using lockstep::gradient::Compare;
  std::printf("transport leaves   plain ms   reproducible ms   ratio\n");
  for (const int leaves : {2, 8}) {
    Compare(
        "shm", [] { return lockstep::transport::MakeShmTransport(); }, leaves);
    Compare(
        "gloo", [] { return *lockstep::transport::MakeGlooTransport({}); },
        leaves);
  }
  return 0;
}
