// The bubble of each schedule as it is measured: stages that sleep instead of
// computing, on ranks that are threads of this process.
//
//   pipeline_bench [MILLISECONDS]     of each forward pass and half backward
//
// Prints the analytic bubble, the measured one and their ratio. A stage that
// sleeps leaves the processor to the others, so this needs no cores of its own;
// what is measured beyond the analytic bubble is the executor and the
// transfers.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "client/pipeline/executor.h"
#include "client/transport/inproc/inproc.h"
#include "plan/schedule/play.h"
#include "plan/verify.h"
#include "tests/plan/pipeline/pipelines.h"

namespace lockstep::pipeline {
namespace {

using plan::ScheduleShape;

class SleepingStage final : public PipelineStage {
 public:
  explicit SleepingStage(int milliseconds) : time_(milliseconds) {}
  absl::Status Forward(int, TensorViews, TensorViews) override {
    return Sleep();
  }
  absl::Status BackwardInput(int, TensorViews, TensorViews) override {
    return Sleep();
  }
  absl::Status BackwardWeight(int, TensorViews) override { return Sleep(); }

 private:
  absl::Status Sleep() const {
    std::this_thread::sleep_for(std::chrono::milliseconds(time_));
    return absl::OkStatus();
  }
  const int time_;
};

class NoLoss final : public PipelineLoss {
 public:
  absl::StatusOr<double> Loss(int, TensorViews, TensorViews) override {
    return 0.0;
  }
};

// By rank and communicator of the plan.
using Communicators = std::vector<std::vector<std::unique_ptr<Communicator>>>;

Communicators Connect(const plan::Plan& plan, transport::Transport& network) {
  Communicators all(plan.ranks.size());
  for (auto& of_rank : all) of_rank.resize(plan.communicators.size());
  for (size_t c = 0; c < plan.communicators.size(); ++c) {
    const std::vector<int>& ranks = plan.communicators[c].ranks;
    const int size = static_cast<int>(ranks.size());
    std::vector<std::unique_ptr<transport::PendingGroup>> pending;
    std::vector<std::string> handles;
    for (int i = 0; i < size; ++i) {
      pending.push_back(*network.Prepare(
          {.name = plan.communicators[c].name, .rank = i, .size = size}));
      handles.push_back(pending.back()->handle());
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < size; ++i) {
      threads.emplace_back([&, i] {
        all[ranks[i]][c] = *pending[i]->Connect(handles, absl::Seconds(30));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  return all;
}

// Seconds of one step on all ranks.
double Measure(const ScheduleShape& shape, int milliseconds) {
  const auto plan = std::make_shared<const plan::Plan>(
      *plan::Compile(plan::PipelineInput(shape)));
  Check(plan::Verify(*plan).ok(), "the plan verifies");
  transport::InprocHub hub;
  const auto network = transport::MakeInprocTransport(&hub);
  const Communicators communicators = Connect(*plan, *network);
  const auto arena = MakePlainArena();
  std::vector<std::unique_ptr<Executor>> executors;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    ExecutorOptions options{.plan = plan, .rank = rank};
    for (const auto& c : communicators[rank]) {
      options.communicators.push_back(c.get());
    }
    options.allocate = [&](size_t bytes) { return arena->Allocate(bytes); };
    options.make_stream = [](const std::string& lane) {
      return std::make_unique<HostStream>(lane);
    };
    executors.push_back(*Executor::Create(std::move(options)));
  }
  SleepingStage stage(milliseconds);
  NoLoss loss;
  const auto run = [&](int rank) {
    Step step{.loss = &loss, .output = {{{DType::kF32, {4, 8}}}}};
    step.stages.assign(shape.virtual_stages, &stage);
    Check(executors[rank]->Run(step).ok(), "the step runs");
  };
  const auto run_all = [&] {
    std::vector<std::thread> threads;
    for (int r = 0; r < shape.ranks; ++r) threads.emplace_back(run, r);
    for (std::thread& thread : threads) thread.join();
  };
  run_all();  // starts the threads of the lanes
  const auto begin = std::chrono::steady_clock::now();
  run_all();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

int Main(int argc, char** argv) {
  const int milliseconds = argc > 1 ? std::atoi(argv[1]) : 5;
  std::printf("%-12s %10s %10s %8s\n", "4 ranks", "analytic", "measured",
              "ratio");
  using enum PipelineSchedule;
  for (const ScheduleShape& shape :
       {ScheduleShape{kGPipe, 4, 8, 1}, ScheduleShape{kOneFOneB, 4, 8, 1},
        ScheduleShape{kInterleaved, 4, 8, 2}, ScheduleShape{kZbH1, 4, 8, 1},
        ScheduleShape{kZbV, 4, 8, 2}}) {
    const double busy =
        3e-3 * milliseconds * shape.micro_batches * shape.virtual_stages;
    const double measured = 1 - busy / Measure(shape, milliseconds);
    const double analytic = *plan::ProvenBubble(shape, {});
    std::printf("%-12s %8.1f %% %8.1f %% %8.3f\n",
                std::string(Name(shape.kind)).c_str(), 100 * analytic,
                100 * measured, measured / analytic);
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::pipeline

int main(int argc, char** argv) { return lockstep::pipeline::Main(argc, argv); }
