// All ranks of a pipeline in one process, each with a thread and a runner.

#ifndef LOCKSTEP_TESTS_CLIENT_PIPELINE_PIPELINE_WORLD_H_
#define LOCKSTEP_TESTS_CLIENT_PIPELINE_PIPELINE_WORLD_H_

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/pipeline/runner.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "plan/verify/verify.h"
#include "tests/client/pipeline/model.h"
#include "tests/client/pipeline/worksite.h"
#include "tests/plan/pipeline/pipelines.h"
#include "tests/support/faulty_communicator.h"
#include "tests/support/inproc_world.h"

namespace lockstep::pipeline {

// Connects the ranks in place of inproc, as a process for each. It may also
// have the stages enqueue their work.
class Network {
 public:
  virtual ~Network() = default;
  virtual transport::Transport& at(int rank) = 0;
  // Null: the rank's stages compute synchronously. `other`: a second one.
  virtual Worksite* SiteOf(int, bool /*other*/ = false) { return nullptr; }
  // The memory of the rank's messages.
  virtual std::unique_ptr<Arena> MakeArena(int) { return MakePlainArena(); }
};

class PipelineWorld {
 public:
  struct Options {
    plan::ScheduleShape shape;
    std::vector<double> weights;
    bool shared = false;         // the first and the last stage have one weight
    double late = 0;             // the share of transfers that are delayed
    Network* network = nullptr;  // none: inproc
    // Wraps each communicator of a rank.
    std::function<std::unique_ptr<Communicator>(
        int rank, const std::string& name, std::unique_ptr<Communicator>)>
        wrap = {};
  };

  explicit PipelineWorld(const Options& options) : options_(options) {
    plan::PlanInput input = plan::PipelineInput(
        options.shape, 1, {{DType::kF64, {kSamples, kWidth}}});
    if (options.shared) {
      input.pipeline.shared = {"tied"};
      for (const int stage : {0, options.shape.stages() - 1}) {
        auto& rank = input.registrations[RankOf(options.shape, stage)];
        const bool there = !rank.empty() && rank.back().name == "tied";
        if (there) continue;
        rank.push_back({.name = "tied",
                        .shape = {kWidth, kWidth},
                        .dtype = DType::kF64,
                        .axes = {"data"}});
      }
    }
    plan_ = std::make_shared<const plan::Plan>(*plan::Compile(input));
    EXPECT_EQ(plan::Verify(*plan_), absl::OkStatus());
    Connect();
    for (int rank = 0; rank < options.shape.ranks; ++rank) AddRank(rank);
  }

  // Runs one step on all ranks; returns the status of each.
  std::vector<absl::Status> Run(int step) {
    std::vector<absl::Status> statuses(ranks_.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      threads.emplace_back(
          [&, rank] { statuses[rank] = RunRank(*ranks_[rank], step); });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

  void ExpectEqualToOneProcess(int step) {
    for (const absl::Status& status : Run(step))
      ASSERT_EQ(status, absl::OkStatus());
    std::vector<double> weights = options_.weights;
    if (weights.empty()) {
      weights.assign(options_.shape.micro_batches,
                     1.0 / options_.shape.micro_batches);
    }
    Outcome expected = RunAlone(options_.shape.stages(), step, weights,
                                [this](int stage) { return Weight(stage); });
    if (options_.shared) {
      Matrix& first = expected.gradients.front();
      Matrix& last = expected.gradients.back();
      for (size_t i = 0; i < first.size(); ++i) {
        first[i] = last[i] = first[i] + last[i];
      }
    }
    double loss = 0;
    for (const auto& rank : ranks_) {
      loss += rank->loss;
      ASSERT_EQ(
          std::set<int>(rank->stages_done.begin(), rank->stages_done.end()),
          std::set<int>(rank->runner->stages().begin(),
                        rank->runner->stages().end()));
      for (size_t i = 0; i < rank->stages.size(); ++i) {
        const int stage = rank->runner->stages()[i];
        ExpectNear(rank->stages[i]->gradient(), expected.gradients[stage]);
        EXPECT_EQ(rank->stages[i]->kept(), 0u);
      }
    }
    EXPECT_NEAR(loss, expected.loss, 1e-12 * (1 + std::abs(expected.loss)));
  }

  // The host launches all of the steps before the device begins the first, on
  // two streams in turn, and destroys the runners. They have no shared
  // gradients and no weights. A step before connects the ranks.
  void ExpectBackToBackEqualToOneProcess(int steps) {
    std::vector<std::vector<StepAhead>> ahead(ranks_.size());
    std::vector<std::vector<int>> stages;
    for (const auto& rank : ranks_) stages.push_back(rank->runner->stages());
    std::atomic<int> launched = 0;
    const absl::Time by = absl::Now() + absl::Seconds(20);
    std::atomic<bool> late = false;
    const auto open = [&] {
      if (launched == static_cast<int>(ranks_.size())) return true;
      if (absl::Now() < by) return false;
      late = true;
      return true;
    };
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      threads.emplace_back([&, rank] {
        const int number = static_cast<int>(rank);
        SiteOf(number)->StallUntil(open);
        for (int step = 0; step < steps; ++step) {
          Worksite* const site = SiteOf(number, /*other=*/step % 2 != 0);
          ahead[rank].push_back(Launch(*ranks_[rank], step, site));
        }
        ++launched;
        ranks_[rank]->runner = nullptr;
        for (const bool other : {false, true}) {
          EXPECT_EQ(SiteOf(number, other)->stream().Synchronize(),
                    absl::OkStatus());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_FALSE(late) << "a Run has waited for the device";
    for (int step = 0; step < steps; ++step) ExpectStep(ahead, stages, step);
  }

  TanhStage& Stage(int stage) {
    for (const auto& rank : ranks_) {
      const std::vector<int>& stages = rank->runner->stages();
      const auto found = std::find(stages.begin(), stages.end(), stage);
      if (found != stages.end()) return *rank->stages[found - stages.begin()];
    }
    ADD_FAILURE() << "no stage " << stage;
    return *ranks_[0]->stages[0];
  }

  // Destroys the rank's runner; all ranks get an error, as from the
  // coordinator.
  void Leave(int rank) {
    left_ = rank;
    NotifyAll(absl::UnavailableError(absl::StrCat("rank ", rank, " left")));
    ranks_[rank]->runner = nullptr;
    ranks_[rank]->executor = nullptr;
  }

  Runner& runner(int rank) { return *ranks_[rank]->runner; }
  // The rank's stages in the order in which they were done, in the last step.
  const std::vector<int>& StagesDone(int rank) const {
    return ranks_[rank]->stages_done;
  }
  // The number of the rank's tasks that had ended a micro-batch by then.
  int PassesWhenDone(int rank, int stage) const {
    return ranks_[rank]->passes_at_end.at(stage);
  }
  const plan::Plan& plan() const { return *plan_; }

 private:
  struct Rank {
    int number;
    std::vector<std::unique_ptr<TanhStage>> stages;
    SquareLoss loss_of;
    std::unique_ptr<Arena> arena;
    std::shared_ptr<executor::Executor> executor;
    std::unique_ptr<Runner> runner;
    double loss = 0;
    std::vector<int> stages_done;
    std::map<int, int> passes_at_end;  // over all its stages, by stage
  };

  // A step that is on its stream.
  struct StepAhead {
    std::vector<std::unique_ptr<TanhStage>> stages;
    std::unique_ptr<SquareLoss> loss;
    std::unique_ptr<Enqueued> enqueued;
  };

  StepAhead Launch(Rank& rank, int number, Worksite* site) {
    StepAhead ahead;
    ahead.loss = std::make_unique<SquareLoss>();
    ahead.loss->step = number;
    Step step{.loss = ahead.loss.get(),
              .output = {{{DType::kF64, {kSamples, kWidth}}}}};
    for (const int stage : rank.runner->stages()) {
      ahead.stages.push_back(std::make_unique<TanhStage>(Weight(stage)));
      ahead.stages.back()->BeginStep(number, stage == 0);
      step.stages.push_back(ahead.stages.back().get());
    }
    ahead.enqueued =
        std::make_unique<Enqueued>(step, site, /*waits_for_losses=*/false);
    EXPECT_EQ(rank.runner->Run(ahead.enqueued->step()).status(),
              absl::OkStatus());
    rank.executor->EndStep();
    return ahead;
  }

  // `stages`: of each rank.
  void ExpectStep(const std::vector<std::vector<StepAhead>>& ahead,
                  const std::vector<std::vector<int>>& stages, int step) {
    const int micro_batches = options_.shape.micro_batches;
    const Outcome expected =
        RunAlone(options_.shape.stages(), step,
                 std::vector<double>(micro_batches, 1.0 / micro_batches),
                 [this](int stage) { return Weight(stage); });
    double loss = 0;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const StepAhead& done = ahead[rank][step];
      loss += done.enqueued->loss().sum() / micro_batches;
      for (size_t i = 0; i < done.stages.size(); ++i) {
        ExpectNear(done.stages[i]->gradient(),
                   expected.gradients[stages[rank][i]]);
      }
    }
    EXPECT_NEAR(loss, expected.loss, 1e-12 * (1 + std::abs(expected.loss)));
  }

  Matrix Weight(int stage) const {
    const bool tied = options_.shared && stage == options_.shape.stages() - 1;
    return WeightOf(tied ? 0 : stage);
  }

  static void ExpectNear(const Matrix& actual, const Matrix& expected) {
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], 1e-12 * (1 + std::abs(expected[i])));
    }
  }

  void Connect() {
    communicators_.resize(plan_->ranks.size());
    for (auto& of_rank : communicators_) {
      of_rank.resize(plan_->communicators.size());
    }
    for (const plan::CommunicatorSpec& group : plan_->communicators) {
      Connect(group);
    }
  }

  void Connect(const plan::CommunicatorSpec& group) {
    const int size = static_cast<int>(group.ranks.size());
    auto members = options_.network == nullptr
                       ? inproc_.Connect(group.name, size)
                       : ConnectIn(group);
    const size_t c = &group - plan_->communicators.data();
    for (int i = 0; i < size; ++i) {
      std::unique_ptr<Communicator> member = std::move(members[i]);
      if (options_.wrap) {
        member = options_.wrap(group.ranks[i], group.name, std::move(member));
      }
      communicators_[group.ranks[i]][c] = std::make_unique<FaultyCommunicator>(
          std::move(member),
          Faults{.seed = c * 100 + i, .late = options_.late});
    }
  }

  // Connects over the transports of another world, whose processes are the
  // ranks.
  std::vector<std::unique_ptr<Communicator>> ConnectIn(
      const plan::CommunicatorSpec& group) {
    const int size = static_cast<int>(group.ranks.size());
    std::vector<std::unique_ptr<transport::PendingGroup>> pending;
    std::vector<std::string> handles;
    for (int i = 0; i < size; ++i) {
      auto half = options_.network->at(group.ranks[i])
                      .Prepare({.name = group.name, .rank = i, .size = size});
      EXPECT_TRUE(half.ok()) << half.status();
      handles.push_back((*half)->handle());
      pending.push_back(*std::move(half));
    }
    std::vector<std::unique_ptr<Communicator>> members(size);
    std::vector<std::thread> threads;
    for (int i = 0; i < size; ++i) {
      threads.emplace_back([&, i] {
        auto connected = pending[i]->Connect(handles, absl::Seconds(30));
        EXPECT_TRUE(connected.ok()) << connected.status();
        if (connected.ok()) members[i] = *std::move(connected);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return members;
  }

  std::unique_ptr<transport::DeviceContext> MakeDeviceContext(int rank) {
    if (options_.network == nullptr) return transport::MakeHostDeviceContext();
    return *options_.network->at(rank).MakeDeviceContext();
  }
  Worksite* SiteOf(int rank, bool other = false) {
    return options_.network == nullptr ? nullptr
                                       : options_.network->SiteOf(rank, other);
  }

  // Aborts all ranks with one cause, as the coordinator does.
  void NotifyAll(const absl::Status& cause) {
    {
      MutexLock lock(&mutex_);
      if (cause_.ok()) cause_ = cause;
    }
    told_.NotifyAll();
  }
  absl::Status AwaitCause() {
    MutexLock lock(&mutex_);
    while (cause_.ok()) told_.Wait(&mutex_);
    return cause_;
  }

  void AddRank(int number) {
    auto& rank = ranks_.emplace_back(std::make_unique<Rank>());
    rank->number = number;
    rank->arena = options_.network == nullptr
                      ? MakePlainArena()
                      : options_.network->MakeArena(number);
    rank->executor = *executor::Executor::Create(
        std::move(communicators_[number]), MakeDeviceContext(number));
    auto program = PipelineProgram(plan_, number, *rank->executor);
    ASSERT_TRUE(program.ok()) << program.status();
    ASSERT_EQ(rank->executor->Adopt(*program), absl::OkStatus());
    auto runner = Runner::Create(
        {.plan = plan_,
         .rank = number,
         .executor = rank->executor,
         .allocate = [arena = rank->arena.get()](
                         size_t bytes) { return arena->Allocate(bytes); },
         .on_failure = [this](const absl::Status& error) { NotifyAll(error); },
         .explain = [this](int, const absl::Status&) { return AwaitCause(); }});
    ASSERT_TRUE(runner.ok()) << runner.status();
    rank->runner = *std::move(runner);
    for (const int stage : rank->runner->stages()) {
      rank->stages.push_back(std::make_unique<TanhStage>(Weight(stage)));
    }
  }

  absl::Status RunRank(Rank& rank, int number) {
    if (rank.number == left_) return absl::OkStatus();
    Step step{.loss = &rank.loss_of,
              .output = {{{DType::kF64, {kSamples, kWidth}}}},
              .weights = options_.weights};
    rank.loss_of.step = number;
    rank.stages_done.clear();
    const std::vector<int>& stages = rank.runner->stages();
    for (size_t i = 0; i < stages.size(); ++i) {
      rank.stages[i]->BeginStep(number, stages[i] == 0);
      step.stages.push_back(rank.stages[i].get());
      const bool end =
          stages[i] == 0 || stages[i] == options_.shape.stages() - 1;
      // A rank with both stages needs no views: it adds the gradients itself.
      const bool has_both =
          stages.front() == 0 && stages.back() == options_.shape.stages() - 1;
      if (!options_.shared || !end || has_both) continue;
      step.shared = {
          {rank.stages[i]->gradient().data(), {DType::kF64, {kWidth, kWidth}}}};
    }
    step.on_stage_done = [&](int stage) {
      rank.stages_done.push_back(stage);
      // Enqueued work takes its time on another thread.
      if (SiteOf(rank.number) != nullptr) return absl::OkStatus();
      rank.passes_at_end[stage] = 0;
      for (const auto& each : rank.stages) {
        rank.passes_at_end[stage] += each->passes();
      }
      return absl::OkStatus();
    };
    const Enqueued enqueued(step, SiteOf(rank.number));
    const absl::StatusOr<double> loss = rank.runner->Run(enqueued.step());
    rank.executor->EndStep();
    if (loss.ok()) rank.loss = *loss;
    Worksite* const site = SiteOf(rank.number);
    const bool waits = loss.ok() && site != nullptr;
    return waits ? site->stream().Synchronize() : loss.status();
  }

  const Options options_;
  int left_ = -1;
  testing_support::InprocWorld inproc_;
  std::shared_ptr<const plan::Plan> plan_;
  // By rank and communicator.
  std::vector<std::vector<std::unique_ptr<Communicator>>> communicators_;
  std::vector<std::unique_ptr<Rank>> ranks_;

  Mutex mutex_;
  CondVar told_;
  absl::Status cause_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::pipeline

#endif  // LOCKSTEP_TESTS_CLIENT_PIPELINE_PIPELINE_WORLD_H_
