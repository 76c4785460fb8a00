// A call of a device fails once in a step, and the device goes on, as without
// memory: what the call would have enqueued, or ordered, is missing. The
// program learns of it, and no rank commits a sum that lacks it.

#include <functional>
#include <latch>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/gradient/failing_calls.h"
#include "tests/client/gradient/replay_rank.h"

namespace lockstep::gradient {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using transport::nccl::Tables;

constexpr FinishOptions kSample{.samples = 1};
constexpr int kCallsMax = 300;  // more than a step has

class MissingOperationTest : public testing::Test {
 protected:
  ~MissingOperationTest() override {
    EXPECT_THAT(backend_.violations(), IsEmpty());
  }

  // Runs `step` with each of its calls failing, on ranks of jobs of their own.
  // It returns whether it succeeded as far as its program knows. `prepare` runs
  // before the call is counted.
  using Step = std::function<absl::Status(ReplayRank&)>;
  void FailEachCall(int world, const BackendJob::Options& options,
                    const Step& prepare, const Step& step) {
    bool was_hit = true;
    int call = 0;
    while (was_hit) {
      ASSERT_LT(++call, kCallsMax);
      SCOPED_TRACE(absl::StrCat("call ", call));
      BackendJob::Options made = options;
      made.world = world;
      made.parameters = kThree;
      BackendJob* all = nullptr;
      made.on_failure = [&](int, const absl::Status& error) {
        all->AbortAll(error);
      };
      BackendJob job(&backend_, made);
      all = &job;
      std::latch prepared(world);
      job.Run([&](int rank, Engine& engine) {
        ReplayRank mine(&job, &backend_, rank);
        ASSERT_EQ(prepare(mine), absl::OkStatus());
        prepared.arrive_and_wait();
        if (rank == 0) calls_.FailAt(call);
        const absl::Status done = step(mine);
        if (rank == 0) {
          was_hit = calls_.End();
          EXPECT_EQ(done.ok() && engine.healthy(), !was_hit)
              << "call " << call << ": " << done;
        }
        (void)mine.stream().Synchronize();
        // What was committed has the gradients of all ranks.
        EXPECT_THAT(mine.weights()[0],
                    testing::AnyOf(0, static_cast<float>(world)));
        if (!engine.healthy()) {
          EXPECT_THAT(mine.Step(kSample).ToString(), HasSubstr("fake error"));
        }
      });
    }
    EXPECT_GT(call, 5);
  }

  FailingCalls calls_;
  FakeGpuBackend backend_{3, [this](int rank, Tables* tables) {
                            if (rank == 0) calls_.Decorate(tables);
                          }};
};

const auto kNothing = [](ReplayRank&) { return absl::OkStatus(); };

absl::Status StepAndWait(ReplayRank& mine) {
  mine.Load(1);
  absl::Status done = mine.Step(kSample);
  return done.ok() ? mine.Wait().status() : done;
}

TEST_F(MissingOperationTest, InAStep) {
  for (const int world : {1, 2}) {
    FailEachCall(world, {}, kNothing, StepAndWait);
  }
}

TEST_F(MissingOperationTest, InAStepThatRunsAhead) {
  FailEachCall(2, {.run_ahead = 1}, kNothing, StepAndWait);
}

}  // namespace
}  // namespace lockstep::gradient
