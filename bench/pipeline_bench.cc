// The measured bubble of each schedule: stages that sleep instead of computing,
// on ranks that are threads of this process.
//
//   pipeline_bench [MILLISECONDS [STEPS]]    per sleep; the median of STEPS
//
//   bubble      1 - busy / (S x makespan); busy is the measured time of the
//               sleeps, not the requested one
//   analytic    the formula of the schedule's authors (plan/schedule/play.h)
//   message     the time of a message between ranks, including all hand-overs
//               between threads: with one micro-batch nothing overlaps, so it
//               is that step's makespan minus its sleeps, divided by the number
//               of its messages
//   transfers   what such messages add to the bubble, by a simulation of the
//               plan with them and with sleeps of the measured length
//   promised    1.05 x analytic + transfers
//
// A sleep leaves the core to other threads, so the benchmark needs no core per
// rank. Anything beyond the promised bubble is lost by the executor: messages
// launched late, waited for too long, or queued behind each other.

#include <sys/prctl.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "client/pipeline/runner.h"
#include "client/transport/device_context.h"
#include "plan/schedule/play.h"
#include "plan/timeline/timeline.h"
#include "plan/verify/verify.h"
#include "tests/plan/pipeline/pipelines.h"
#include "tests/support/inproc/inproc.h"

namespace lockstep::pipeline {
namespace {

using plan::ScheduleShape;
using plan::Work;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kRanks = 4;
constexpr int kMicroBatches = 8;

// The measured durations of one kind of pass.
struct Slept {
  double seconds = 0;
  int times = 0;

  void Add(const Slept& other) {
    seconds += other.seconds;
    times += other.times;
  }
  int64_t MeanNanoseconds() const {
    return static_cast<int64_t>(1e9 * seconds / times);
  }
};

struct Sleeps {
  Slept forward;
  Slept backward_input;
  Slept backward_weight;

  void Add(const Sleeps& other) {
    forward.Add(other.forward);
    backward_input.Add(other.backward_input);
    backward_weight.Add(other.backward_weight);
  }
  double seconds() const {
    return forward.seconds + backward_input.seconds + backward_weight.seconds;
  }
};

// Implements all stages of one rank.
class SleepingStage final : public PipelineStage {
 public:
  explicit SleepingStage(int milliseconds) : time_(milliseconds) {}
  absl::Status Forward(int, TensorViews, TensorViews) override {
    return Sleep(sleeps.forward);
  }
  absl::Status BackwardInput(int, TensorViews, TensorViews) override {
    return Sleep(sleeps.backward_input);
  }
  absl::Status BackwardWeight(int, TensorViews) override {
    return Sleep(sleeps.backward_weight);
  }

  Sleeps sleeps;

 private:
  absl::Status Sleep(Slept& slept) const {
    const auto begin = Clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(time_));
    slept.Add({Seconds(Clock::now() - begin).count(), 1});
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

// Indexed by rank and communicator of the plan.
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

// The times of one step of all ranks.
struct StepTimes {
  double makespan = 0;  // seconds
  Sleeps sleeps;        // of all ranks
};

// The ranks of a plan.
class World {
 public:
  World(const ScheduleShape& shape, int milliseconds)
      : shape_(shape),
        milliseconds_(milliseconds),
        plan_(std::make_shared<const plan::Plan>(
            *plan::Compile(plan::PipelineInput(shape)))) {
    Check(plan::Verify(*plan_).ok(), "the plan verifies");
    communicators_ = Connect(*plan_, *network_);
    for (int rank = 0; rank < shape.ranks; ++rank) {
      RunnerOptions options{
          .plan = plan_,
          .rank = rank,
          .executor =
              *executor::Executor::Create(std::move(communicators_[rank]),
                                          transport::MakeHostDeviceContext()),
          .allocate = [this](size_t bytes) { return arena_->Allocate(bytes); }};
      auto program = PipelineProgram(plan_, rank, *options.executor);
      Check(program.ok() && options.executor->Adopt(*program).ok(),
            "the plan has a program");
      executors_.push_back(options.executor);
      runners_.push_back(*Runner::Create(std::move(options)));
    }
    Run();  // starts the threads of the lanes
  }

  const plan::Plan& plan() const { return *plan_; }

  StepTimes Run() {
    std::vector<Clock::time_point> begins(shape_.ranks);
    std::vector<Clock::time_point> ends(shape_.ranks);
    std::vector<SleepingStage> stages(shape_.ranks,
                                      SleepingStage(milliseconds_));
    std::barrier all_there(shape_.ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      threads.emplace_back([&, rank] {
        // Otherwise a sleep takes up to 50 us longer than requested.
        prctl(PR_SET_TIMERSLACK, 1);
        NoLoss loss;
        Step step{.loss = &loss, .output = {{{DType::kF32, {4, 8}}}}};
        step.stages.assign(shape_.virtual_stages, &stages[rank]);
        all_there.arrive_and_wait();
        begins[rank] = Clock::now();
        Check(runners_[rank]->Run(step).ok(), "the step runs");
        ends[rank] = Clock::now();
        executors_[rank]->EndStep();
      });
    }
    for (std::thread& thread : threads) thread.join();
    StepTimes times;
    for (const SleepingStage& stage : stages) times.sleeps.Add(stage.sleeps);
    times.makespan = Seconds(*std::max_element(ends.begin(), ends.end()) -
                             *std::min_element(begins.begin(), begins.end()))
                         .count();
    return times;
  }

 private:
  const ScheduleShape shape_;
  const int milliseconds_;
  const std::shared_ptr<const plan::Plan> plan_;
  transport::InprocHub hub_;
  const std::unique_ptr<transport::Transport> network_ =
      transport::MakeInprocTransport(&hub_);
  const std::unique_ptr<Arena> arena_ = MakePlainArena();
  Communicators communicators_;
  std::vector<std::shared_ptr<executor::Executor>> executors_;
  std::vector<std::unique_ptr<Runner>> runners_;
};

double Median(std::vector<double> values) {
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double MessageSeconds(int milliseconds, int steps) {
  World chain({PipelineSchedule::kGPipe, kRanks, 1, 1}, milliseconds);
  std::vector<double> seconds;
  for (int i = 0; i < 3 * steps; ++i) {
    const StepTimes times = chain.Run();
    seconds.push_back((times.makespan - times.sleeps.seconds()) /
                      (2 * (kRanks - 1)));
  }
  return Median(seconds);
}

double PlayedBubble(const plan::Plan& plan, const Sleeps& sleeps,
                    double message_seconds) {
  const plan::WorkTimes times{
      .forward = sleeps.forward.MeanNanoseconds(),
      .backward_input = sleeps.backward_input.MeanNanoseconds(),
      .backward_weight = sleeps.backward_weight.MeanNanoseconds()};
  return plan::TimelineOf(
             plan, {.stages = {times},
                    .latency = static_cast<int64_t>(1e9 * message_seconds)})
      ->bubble;
}

void Measure(const ScheduleShape& shape, int milliseconds, int steps,
             double message_seconds) {
  World world(shape, milliseconds);
  std::vector<double> bubbles;
  Sleeps sleeps;
  for (int i = 0; i < steps; ++i) {
    const StepTimes times = world.Run();
    sleeps.Add(times.sleeps);
    bubbles.push_back(1 -
                      times.sleeps.seconds() / (shape.ranks * times.makespan));
  }
  const double analytic = *plan::ProvenBubble(shape, {});
  const double transfers = PlayedBubble(world.plan(), sleeps, message_seconds) -
                           PlayedBubble(world.plan(), sleeps, 0);
  const double promised = 1.05 * analytic + transfers;
  const double measured = Median(bubbles);
  std::printf("%-12s %8.2f %% %8.2f %% %8.2f %% %8.2f %% %8.3f  %s\n",
              std::string(Name(shape.kind)).c_str(), 100 * analytic,
              100 * transfers, 100 * promised, 100 * measured,
              (measured - transfers) / analytic,
              measured <= promised ? "reached" : "not reached");
}

int Main(int argc, char** argv) {
  const int milliseconds = argc > 1 ? std::atoi(argv[1]) : 20;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 5;
  const double message = MessageSeconds(milliseconds, steps);
  std::printf(
      "%d ranks, %d micro-batches, sleeps of %d ms, median of %d steps; a "
      "message takes %.0f us\n"
      "%-12s %10s %10s %10s %10s %8s\n",
      kRanks, kMicroBatches, milliseconds, steps, 1e6 * message, "bubble",
      "analytic", "transfers", "promised", "measured", "ratio");
  using enum PipelineSchedule;
  for (const ScheduleShape& shape :
       {ScheduleShape{kGPipe, kRanks, kMicroBatches, 1},
        ScheduleShape{kOneFOneB, kRanks, kMicroBatches, 1},
        ScheduleShape{kInterleaved, kRanks, kMicroBatches, 2},
        ScheduleShape{kZbH1, kRanks, kMicroBatches, 1},
        ScheduleShape{kZbV, kRanks, kMicroBatches, 2}}) {
    Measure(shape, milliseconds, steps, message);
  }
  std::printf("ratio: (measured - transfers) / analytic, promised 1.05\n");
  return 0;
}

}  // namespace
}  // namespace lockstep::pipeline

int main(int argc, char** argv) { return lockstep::pipeline::Main(argc, argv); }
