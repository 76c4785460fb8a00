// Engines that switch to a later revision during training, over the in-process
// transport: every rank is a thread, and stages the revision at a random step.

#include <algorithm>
#include <cmath>
#include <functional>
#include <latch>
#include <limits>
#include <numeric>
#include <random>
#include <thread>

#include "client/gradient/engine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "tests/support/inproc_world.h"

namespace lockstep::gradient {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing_support::InprocWorld;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kWorld = 3;
constexpr int kParameters = 5;
const std::vector<int> kSizes = {3, 40, 1, 17, 64};  // elements
const BucketPolicy kPolicy = {.first_bytes_max = 64, .bytes_max = 512};

// A rank's gradient for a parameter in a step: sums of it are exact.
float GradientOf(int rank, int parameter, uint64_t step) {
  return static_cast<float>((rank + 1) * (parameter + 1) * 8 + step % 8);
}
float SumOf(int parameter, uint64_t step) {
  float sum = 0;
  for (int rank = 0; rank < kWorld; ++rank) {
    sum += GradientOf(rank, parameter, step);
  }
  return sum;
}

plan::Plan FirstPlan() {
  plan::PlanInput input{.mesh = {{{"data", kWorld}}}, .policy = kPolicy};
  std::vector<Parameter> parameters;
  for (int p = 0; p < kParameters; ++p) {
    parameters.push_back({.name = std::string(1, static_cast<char>('a' + p)),
                          .shape = {kSizes[p]},
                          .op = ReduceOp::kSum});
  }
  input.registrations.assign(kWorld, parameters);
  return *plan::Compile(input);
}

std::vector<uint32_t> Shuffled(std::mt19937& random) {
  std::vector<uint32_t> order(kParameters);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

class SwitchTest : public testing::Test {
 protected:
  // A thread of one engine may still be about to abort all.
  ~SwitchTest() override {
    MutexLock lock(&mutex_);
    engines_end_ = true;
  }

  // plans[rank]: the rank's first revision.
  void Begin(const std::vector<plan::Plan>& plans) {
    std::vector<std::vector<std::unique_ptr<Communicator>>> all;
    for (const plan::CommunicatorSpec& communicator : plans[0].communicators) {
      all.push_back(world_.Connect(communicator.name, kWorld));
    }
    for (int rank = 0; rank < kWorld; ++rank) {
      EngineOptions options{
          .epoch = {1},
          .uneven = Uneven::kJoin,
          .plan = plans[rank],
          .rank = rank,
          .names = {"a", "b", "c", "d", "e"},
          .uses = {1, 1, 1, 1, 1},
          .allocate = [this](size_t bytes) { return arena_->Allocate(bytes); },
          .clock = &clock_,
          // Aborts the others, as the coordinator would.
          .on_failure =
              [this](int, const absl::Status& error) {
                MutexLock lock(&mutex_);
                if (engines_end_) return;
                failed_ = true;
                for (const auto& engine : engines_) engine->Abort(error);
              },
          .explain = [](const absl::Status& error) { return error; },
      };
      std::vector<std::unique_ptr<Communicator>> communicators;
      for (auto& members : all) {
        communicators.push_back(std::move(members[rank]));
      }
      options.executor = *executor::Executor::Create(
          std::move(communicators), transport::MakeHostDeviceContext());
      auto engine = Engine::Create(std::move(options));
      ASSERT_TRUE(engine.ok()) << engine.status();
      engines_.push_back(*std::move(engine));
    }
  }
  void Begin() { Begin(std::vector<plan::Plan>(kWorld, FirstPlan())); }

  void Run(const std::function<void(int rank, Engine& engine)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kWorld; ++rank) {
      threads.emplace_back([&, rank] { body(rank, *engines_[rank]); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Submits from the caller's buffers, in any order.
  static void SubmitAll(int rank, Engine& engine, uint64_t step,
                        const std::vector<uint32_t>& order) {
    for (const uint32_t p : order) {
      const std::vector<float> gradient(kSizes[p], GradientOf(rank, p, step));
      ASSERT_EQ(engine.Submit(p, gradient.data(), gradient.size() * 4, nullptr),
                absl::OkStatus());
    }
  }
  static absl::StatusOr<Verdict> Finish(Engine& engine,
                                        const FinishOptions& options = {
                                            .samples = 1}) {
    auto pending = engine.Finish(options, kInfinity, nullptr);
    if (!pending.ok()) return pending.status();
    return (*pending)->Wait();
  }
  static void CheckReduced(Engine& engine, uint64_t step) {
    for (int p = 0; p < kParameters; ++p) {
      const absl::Span<std::byte> view = *engine.View(p);
      const auto* data = reinterpret_cast<const float*>(view.data());
      const std::vector<float> values(data, data + view.size() / 4);
      ASSERT_EQ(values.size(), static_cast<size_t>(kSizes[p]));
      ASSERT_THAT(values, Each(SumOf(p, step))) << p << " in step " << step;
    }
  }

  SystemClock clock_;
  InprocWorld world_;
  std::unique_ptr<Arena> arena_ = MakePlainArena();
  Mutex mutex_;
  bool engines_end_ = false;
  bool failed_ = false;
  std::vector<std::unique_ptr<Engine>> engines_;
};

// Three revisions; each rank stages the next at a random step.
TEST_F(SwitchTest, AllRanksSwitchAfterTheFirstStepInWhichAllHold) {
  for (int seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    engines_.clear();
    Begin();
    std::mt19937 random(seed);
    std::vector<plan::Plan> plans = {FirstPlan()};
    // held[r][rank]: the step before which the rank stages plans[r]; ends[r]:
    // the last step of revision r.
    std::vector<std::vector<uint64_t>> held(3, std::vector<uint64_t>(kWorld));
    std::vector<uint64_t> ends(3);
    for (int r = 1; r < 3; ++r) {
      plans.push_back(*plan::Recut(plans.back(), kPolicy, Shuffled(random)));
      const uint64_t from = r == 1 ? 0 : ends[r - 1] + 1;
      for (uint64_t& step : held[r]) step = from + random() % 6;
      ends[r] = *std::max_element(held[r].begin(), held[r].end());
    }
    const uint64_t steps = ends[2] + 3;
    const auto order = Shuffled(random);
    Run([&](int rank, Engine& engine) {
      engine.OnMoved([] {});  // views are fetched again in every step
      for (uint64_t step = 0; step < steps; ++step) {
        for (int r = 1; r < 3; ++r) {
          if (held[r][rank] != step) continue;
          ASSERT_EQ(engine.Stage(plans[r]), absl::OkStatus());
        }
        SubmitAll(rank, engine, step, order);
        const auto verdict = Finish(engine);
        ASSERT_TRUE(verdict.ok()) << verdict.status();
        const bool last = step == ends[1] || step == ends[2];
        EXPECT_EQ(verdict->revision_holders == kWorld, last);
        EXPECT_EQ(engine.revision().value,
                  1u + (step >= ends[1]) + (step >= ends[2]));
        EXPECT_EQ(engine.progress().revision, engine.revision());
        EXPECT_THAT(verdict->contributed, Each(true));
        CheckReduced(engine, step);
      }
    });
    if (HasFailure()) break;
  }
}

TEST_F(SwitchTest, StepsInFlightSwitchBetweenThem) {
  constexpr uint64_t kSteps = 60;
  Begin();
  const plan::Plan next = *plan::Recut(FirstPlan(), kPolicy, {0, 2, 4, 1, 3});
  Run([&](int rank, Engine& engine) {
    engine.OnMoved([] {});
    std::vector<std::vector<std::vector<float>>> gradients(kSteps);
    std::vector<std::shared_ptr<PendingVerdict::State>> pending;
    std::thread other([&] {  // stages while steps are in flight
      EXPECT_EQ(engine.Stage(next), absl::OkStatus());
    });
    HostStream stream;
    for (uint64_t step = 0; step < kSteps; ++step) {
      for (int p = 0; p < kParameters; ++p) {
        gradients[step].emplace_back(kSizes[p], GradientOf(rank, p, step));
        const std::vector<float>& gradient = gradients[step].back();
        ASSERT_EQ(
            engine.Submit(p, gradient.data(), gradient.size() * 4, &stream),
            absl::OkStatus());
      }
      auto verdict = engine.Finish({}, kInfinity, &stream);
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      pending.push_back(*verdict);
      stream.Enqueue([&engine, step] {
        CheckReduced(engine, step);
        return absl::OkStatus();
      });
      // A few steps in flight, so that the switch is in the middle of them.
      if (step >= 4) {
        const auto passed = pending[step - 4]->Wait();
        ASSERT_TRUE(passed.ok()) << passed.status();
      }
      if (step == kSteps / 2) other.join();
    }
    EXPECT_EQ(stream.Synchronize(), absl::OkStatus());
    EXPECT_EQ(engine.revision(), Revision{2});
    const auto holders = [&](uint64_t step) {
      return pending[step]->Wait()->revision_holders;
    };
    uint64_t switches = 0;
    for (uint64_t step = 0; step < kSteps; ++step) {
      switches += holders(step) == kWorld;
    }
    EXPECT_EQ(switches, 1u);
  });
}

TEST_F(SwitchTest, AHandlerRunsBeforeTheVerdictIsReturned) {
  Begin();
  const plan::Plan next = *plan::Recut(FirstPlan(), kPolicy, {0, 2, 4, 1, 3});
  Run([&](int rank, Engine& engine) {
    std::vector<absl::Span<std::byte>> views;
    const auto fetch = [&] {
      views.clear();
      for (int p = 0; p < kParameters; ++p) views.push_back(*engine.View(p));
    };
    fetch();
    engine.OnMoved(fetch);
    for (uint64_t step = 0; step < 6; ++step) {
      if (step == 2) {
        ASSERT_EQ(engine.Stage(next), absl::OkStatus());
      }
      for (int p = 0; p < kParameters; ++p) {
        auto* data = reinterpret_cast<float*>(views[p].data());
        std::fill(data, data + kSizes[p], GradientOf(rank, p, step));
        ASSERT_EQ(engine.Submit(p, nullptr, 0, nullptr), absl::OkStatus());
      }
      ASSERT_TRUE(Finish(engine).ok());
      for (int p = 0; p < kParameters; ++p) {
        const auto* data = reinterpret_cast<const float*>(views[p].data());
        EXPECT_EQ(*data, SumOf(p, step)) << step;
        EXPECT_EQ(views[p].data(), engine.View(p)->data());
      }
    }
    EXPECT_EQ(engine.revision(), Revision{2});
  });
}

// The step has passed by then, whatever else its verdict contains.
TEST_F(SwitchTest, AHandlerRunsBetweenTheSteps) {
  Begin();
  const plan::Plan next = *plan::Recut(FirstPlan(), kPolicy, {0, 2, 4, 1, 3});
  Run([&](int, Engine& engine) {
    protocol::Position position;
    engine.OnMoved([&] { position = engine.progress().position; });
    ASSERT_EQ(engine.Stage(next), absl::OkStatus());
    ASSERT_TRUE(Finish(engine).ok());
    EXPECT_EQ(position, (protocol::Position{1, protocol::Phase::kIdle}));
  });
}

TEST_F(SwitchTest, AnAbortInAHandlerReportsTheVerdictThatPassed) {
  Begin();
  const plan::Plan next = *plan::Recut(FirstPlan(), kPolicy, {0, 2, 4, 1, 3});
  std::latch all_have_passed(kWorld);
  Run([&](int, Engine& engine) {
    protocol::EpochReport report;
    engine.OnMoved([&] {
      all_have_passed.arrive_and_wait();
      engine.Abort(absl::AbortedError("over"));
      report = *engine.Report();
    });
    ASSERT_EQ(engine.Stage(next), absl::OkStatus());
    ASSERT_TRUE(Finish(engine).ok());
    EXPECT_EQ(report.position, (protocol::Position{1, protocol::Phase::kIdle}));
    EXPECT_EQ(report.verdict.size(), sizeof(SummaryVectors));
    EXPECT_EQ(engine.Report()->verdict, report.verdict);
  });
}

TEST_F(SwitchTest, ARankThatCannotMoveKeepsAllInTheRevisionBefore) {
  Begin();
  const plan::Plan next = *plan::Recut(FirstPlan(), kPolicy, {0, 2, 4, 1, 3});
  Run([&](int rank, Engine& engine) {
    if (rank == 1) (void)engine.View(0);  // without a handler
    if (rank != 1) engine.OnMoved([] {});
    EXPECT_EQ(engine.Stage(next).code(),
              rank == 1 ? absl::StatusCode::kFailedPrecondition
                        : absl::StatusCode::kOk);
    EXPECT_EQ(engine.CanMove(), rank != 1);
    for (uint64_t step = 0; step < 4; ++step) {
      SubmitAll(rank, engine, step, {0, 1, 2, 3, 4});
      const auto verdict = Finish(engine);
      ASSERT_TRUE(verdict.ok());
      EXPECT_EQ(verdict->revision_holders, kWorld - 1);
      EXPECT_EQ(engine.revision(), Revision{1});
      CheckReduced(engine, step);
    }
  });
}

// A rank that switched one step too early. Worse, both plans transfer the same
// bytes, so that only the verdict can detect it.
TEST_F(SwitchTest, ARankInAnotherRevisionIsCaughtByTheVerdict) {
  std::vector<plan::Plan> plans(kWorld, FirstPlan());
  plans[1].revision = {2};
  Begin(plans);
  Run([&](int rank, Engine& engine) {
    SubmitAll(rank, engine, 0, {0, 1, 2, 3, 4});
    const auto verdict = Finish(engine);
    EXPECT_EQ(verdict.status().code(), absl::StatusCode::kAborted);
    EXPECT_EQ(engine.step(), 0u) << "nobody may update";
  });
  EXPECT_TRUE(failed_);
}

TEST_F(SwitchTest, ARankWithOtherBucketsNeverPassesAStep) {
  std::vector<plan::Plan> plans(kWorld, FirstPlan());
  plans[1] = *plan::Recut(plans[1], kPolicy, {0, 2, 4, 1, 3});
  Begin(plans);
  Run([&](int rank, Engine& engine) {
    // May be refused, or ended by another rank's failure, before that.
    for (int p = 0; p < kParameters; ++p) {
      const std::vector<float> gradient(kSizes[p], 1);
      engine.Submit(p, gradient.data(), gradient.size() * 4, nullptr)
          .IgnoreError();
    }
    EXPECT_FALSE(Finish(engine).ok()) << rank;
    EXPECT_EQ(engine.step(), 0u);
  });
}

TEST_F(SwitchTest, TellsTheOrderOfTheNextStepThatHasOne) {
  Begin();
  Run([&](int rank, Engine& engine) {
    std::vector<std::vector<uint32_t>> told;
    engine.WatchOrder(
        [&](std::vector<uint32_t> order) { told.push_back(order); });
    ASSERT_TRUE(Finish(engine).ok());  // nothing was submitted
    EXPECT_TRUE(told.empty());
    SubmitAll(rank, engine, 1, {3, 0, 4});
    ASSERT_TRUE(Finish(engine).ok());
    SubmitAll(rank, engine, 2, {0, 1});
    ASSERT_TRUE(Finish(engine).ok());
    EXPECT_THAT(told, ElementsAre(ElementsAre(3, 0, 4, 1, 2)));
  });
}

// Such a rank has no further step in which to report an order.
TEST_F(SwitchTest, ARankWithoutDataTellsTheOrderOfThePlan) {
  Begin();
  Run([&](int rank, Engine& engine) {
    const bool out = rank == 0;
    ASSERT_TRUE(Finish(engine, {.samples = 1, .more_data = !out}).ok());
    std::vector<std::vector<uint32_t>> told;
    engine.WatchOrder(
        [&](std::vector<uint32_t> order) { told.push_back(order); });
    ASSERT_TRUE(Finish(engine, {.samples = 0, .more_data = !out}).ok());
    if (out) {
      EXPECT_THAT(told, ElementsAre(ElementsAre(0, 1, 2, 3, 4)));
    } else {
      EXPECT_TRUE(told.empty());
    }
  });
}

}  // namespace
}  // namespace lockstep::gradient
