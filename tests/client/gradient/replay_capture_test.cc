// What a program may do wrong while it captures a step into a graph of its own,
// and what it may do. Whatever it was, the epoch goes on: nothing has run.

#include <latch>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/gradient/replay_rank.h"
#include "tests/support/failing_calls.h"

namespace lockstep::gradient {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using transport::nccl::Tables;

constexpr FinishOptions kOne{.samples = 1};

class ReplayCaptureTest : public testing::Test {
 protected:
  ~ReplayCaptureTest() override {
    EXPECT_THAT(backend_.violations(), IsEmpty());
  }

  using Body = std::function<void(ReplayRank& mine, int rank)>;
  // On `world` ranks whose program may launch graphs.
  void Run(int world, const Body& body) {
    BackendJob job(&backend_, {.world = world, .parameters = kThree});
    job_ = &job;
    job.Run([&](int rank, Engine& engine) {
      ReplayRank mine(&job, &backend_, rank);
      ASSERT_EQ(engine.BeginReplays(), absl::OkStatus());
      body(mine, rank);
    });
  }
  // An eager step, a capture and a launch of it do what they should.
  static void ExpectUnharmed(ReplayRank& mine, int world) {
    const float before = mine.weights()[0];
    mine.Load(1);
    ASSERT_EQ(mine.Step(kOne), absl::OkStatus());
    ASSERT_TRUE(mine.Wait().ok());
    ASSERT_EQ(mine.Capture(), absl::OkStatus());
    mine.Launch(10, mine.graphs() - 1);
    const auto next = mine.Next();
    ASSERT_TRUE(next.ok()) << next.status();
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    EXPECT_EQ(mine.weights()[0], before + static_cast<float>(11 * world));
  }
  static void ExpectRefused(const absl::Status& status, const char* why) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }

  fake::FailingCalls failures_;
  FakeGpuBackend backend_{3, [this](int rank, Tables* tables) {
                            if (rank == 0) failures_.Decorate(tables);
                          }};
  BackendJob* job_ = nullptr;
};

// --- Errors ------------------------------------------------------------------

// The example of replayed_steps.h looks at the last call only.
TEST_F(ReplayCaptureTest, AGradientThatWasNotEnqueuedFailsTheCapture) {
  Run(1, [&](ReplayRank& mine, int) {
    mine.BeginCapture();
    ASSERT_EQ(mine.engine().JoinCapture(mine.stream()), absl::OkStatus());
    failures_.FailNext(fake::FailingCalls::Call::kPack);
    EXPECT_FALSE(mine.SubmitV(mine.stream()).ok());
    EXPECT_EQ(mine.SubmitW(mine.stream()), absl::OkStatus());
    const absl::Status finished = mine.Finish(kOne, mine.stream());
    EXPECT_THAT(std::string(finished.message()), HasSubstr("Pack"));
    (void)mine.EndCapture(finished);
    ExpectUnharmed(mine, 1);
  });
}

TEST_F(ReplayCaptureTest,
       AGradientThatWasNotEnqueuedFailsACaptureOfTheLibrary) {
  Run(1, [&](ReplayRank& mine, int) {
    for (const bool returns_it : {true, false}) {
      failures_.FailNext(fake::FailingCalls::Call::kPack);
      const auto step = mine.engine().Capture(mine.stream(), [&] {
        (void)mine.SubmitV(mine.stream());
        const absl::Status finished = mine.Finish(kOne, mine.stream());
        return returns_it ? finished : absl::OkStatus();
      });
      EXPECT_THAT(std::string(step.status().message()), HasSubstr("Pack"));
    }
    ExpectUnharmed(mine, 1);
  });
}

TEST_F(ReplayCaptureTest, AJoinThatIsNoPartOfTheCaptureFails) {
  Run(1, [&](ReplayRank& mine, int) {
    mine.BeginCapture();
    failures_.FailNext(fake::FailingCalls::Call::kRecord);
    EXPECT_THAT(mine.engine().JoinCapture(mine.stream()).ToString(),
                HasSubstr("EventRecord"));
    (void)mine.EndCapture(absl::CancelledError("not joined"));
    (void)mine.stream().Synchronize();
    ExpectUnharmed(mine, 1);
  });
}

// A device that does not decide a launch is asked whether it runs anything.
TEST_F(ReplayCaptureTest, NoMemoryToAskADeviceFailsNoLaunch) {
  std::latch has_asked(1);
  Run(2, [&](ReplayRank& mine, int rank) {
    ASSERT_EQ(mine.Capture(kOne), absl::OkStatus());
    if (rank == 1) has_asked.wait();
    mine.Launch(1);
    if (rank == 0) {
      failures_.FailLastingly();
      failures_.FailAt(1, /*captured=*/false);
      const Deadline deadline(absl::Seconds(20));
      while (!failures_.has_failed() && !deadline.Passed()) {
        absl::SleepFor(absl::Milliseconds(1));
      }
      EXPECT_TRUE(failures_.End());
      has_asked.count_down();
    }
    const auto next = mine.Next();
    EXPECT_TRUE(next.ok()) << next.status();
  });
}

TEST_F(ReplayCaptureTest, AStreamOfTheHostCannotJoin) {
  Run(1, [&](ReplayRank& mine, int) {
    HostStream stream;
    EXPECT_TRUE(absl::IsInvalidArgument(mine.engine().JoinCapture(stream)));
    ExpectUnharmed(mine, 1);
  });
}

// The streams of the library are part of the capture until it ends.
TEST_F(ReplayCaptureTest, NoStepBeginsBeforeTheCaptureHasEnded) {
  Run(2, [&](ReplayRank& mine, int rank) {
    const auto other = job_->MakeStream(rank);
    for (const bool finishes : {true, false}) {
      mine.BeginCapture();
      ASSERT_EQ(mine.engine().JoinCapture(mine.stream()), absl::OkStatus());
      absl::Status step;
      if (finishes) {
        step = mine.Step(kOne);
        ASSERT_EQ(step, absl::OkStatus());
      } else {
        ASSERT_EQ(mine.SubmitV(mine.stream()), absl::OkStatus());
        mine.engine().LeaveCapture();
        step = absl::CancelledError("given up");
      }
      ExpectRefused(mine.SubmitW(*other), "has not ended");
      ExpectRefused(mine.Finish(kOne, *other), "has not ended");
      EXPECT_EQ(mine.EndCapture(step), step);
      ExpectUnharmed(mine, 2);
    }
  });
}

// A capture that CUDA has invalidated cannot be used; what comes behind it can.
// NCCL's calls are an exception: their errors end its communicators.
class InvalidCaptureTest : public ReplayCaptureTest,
                           public testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(AtCall, InvalidCaptureTest, testing::Range(1, 65));

TEST_P(InvalidCaptureTest, EndsNoEpoch) {
  for (const bool goes_on : {false, true}) {
    Run(1, [&](ReplayRank& mine, int rank) {
      mine.BeginCapture();
      backend_.gpus().InvalidateCaptureAt(rank, GetParam());
      absl::Status step = mine.engine().JoinCapture(mine.stream());
      if (step.ok()) step = mine.SubmitV(mine.stream());
      if (step.ok() || goes_on) step = mine.SubmitW(mine.stream());
      if (step.ok() || goes_on) step = mine.Finish(kOne, mine.stream());
      mine.engine().LeaveCapture();
      const bool was_hit = backend_.gpus().CaptureCallsLeft(rank) == 0;
      backend_.gpus().InvalidateCaptureAt(rank, 0);
      const absl::Status ended = mine.EndCapture(step);
      EXPECT_EQ(ended.ok(), !was_hit) << ended;
      (void)mine.stream().Synchronize();
      mine.Load(1);
      absl::Status next = mine.Step(kOne);
      if (next.ok()) next = mine.Wait().status();
      (void)mine.stream().Synchronize();
      if (next.ok()) return ExpectUnharmed(mine, 1);
      EXPECT_THAT(next.ToString(), HasSubstr("nccl"));
    });
  }
}

// --- What is allowed ---------------------------------------------------------

TEST_F(ReplayCaptureTest, StreamsThatTheProgramHasForkedTakePart) {
  Run(2, [&](ReplayRank& mine, int rank) {
    const auto fork = job_->MakeStream(rank);
    Stream& first = mine.stream();
    struct Streams {
      Stream *v, *w, *finish;
    };
    const Streams all[] = {{fork.get(), &first, &first},
                           {fork.get(), fork.get(), &first},
                           {fork.get(), &first, fork.get()}};
    for (const Streams& streams : all) {
      mine.BeginCapture();
      ASSERT_EQ(mine.engine().JoinCapture(first), absl::OkStatus());
      fork->WaitFor(first.Record());
      ASSERT_EQ(mine.SubmitV(*streams.v), absl::OkStatus());
      ASSERT_EQ(mine.SubmitW(*streams.w), absl::OkStatus());
      ASSERT_EQ(mine.Finish(kOne, *streams.finish), absl::OkStatus());
      first.WaitFor(fork->Record());
      ASSERT_EQ(mine.EndCapture(absl::OkStatus()), absl::OkStatus());
    }
    float sum = 0;
    for (int launch = 0; launch < 12; ++launch) {
      mine.Launch(static_cast<float>(1 + launch), launch % 3);
      sum += static_cast<float>(2 * (1 + launch));
    }
    for (int launch = 0; launch < 12; ++launch) {
      ASSERT_TRUE(mine.Next().ok());
    }
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    EXPECT_EQ(mine.weights()[0], sum);
  });
}

TEST_F(ReplayCaptureTest, AForkThatDoesNotEndFailsTheCaptureOnly) {
  Run(2, [&](ReplayRank& mine, int rank) {
    const auto fork = job_->MakeStream(rank);
    mine.BeginCapture();
    ASSERT_EQ(mine.engine().JoinCapture(mine.stream()), absl::OkStatus());
    fork->WaitFor(mine.stream().Record());
    ASSERT_EQ(mine.SubmitV(*fork), absl::OkStatus());
    ASSERT_EQ(mine.SubmitW(*fork), absl::OkStatus());
    ASSERT_EQ(mine.Finish(kOne, mine.stream()), absl::OkStatus());
    job_->Enqueue(*fork, [] {});
    EXPECT_FALSE(mine.EndCapture(absl::OkStatus()).ok());
    ExpectUnharmed(mine, 2);
  });
}

TEST_F(ReplayCaptureTest, CallsOutOfTurnChangeNothing) {
  Run(2, [&](ReplayRank& mine, int) {
    mine.engine().LeaveCapture();
    ExpectRefused(mine.engine().JoinCapture(mine.stream()),
                  "begin the capture");
    mine.BeginCapture();
    ASSERT_EQ(mine.engine().JoinCapture(mine.stream()), absl::OkStatus());
    ExpectRefused(mine.engine().JoinCapture(mine.stream()), "LeaveCapture");
    ASSERT_EQ(mine.SubmitW(mine.stream()), absl::OkStatus());
    // The end of the capture without that of the step.
    (void)mine.EndCapture(absl::CancelledError("given up"));
    ExpectRefused(mine.SubmitW(mine.stream()), "LeaveCapture");
    mine.engine().LeaveCapture();
    mine.engine().LeaveCapture();
    ExpectUnharmed(mine, 2);
    // A step that was given up leaves its capture as it is.
    mine.BeginCapture();
    ASSERT_EQ(mine.engine().JoinCapture(mine.stream()), absl::OkStatus());
    ASSERT_EQ(mine.SubmitW(mine.stream()), absl::OkStatus());
    mine.engine().LeaveCapture();
    ASSERT_EQ(mine.engine().JoinCapture(mine.stream()), absl::OkStatus());
    const absl::Status step = mine.Step(kOne);
    ASSERT_EQ(step, absl::OkStatus());
    ASSERT_EQ(mine.EndCapture(step), absl::OkStatus());
    ExpectUnharmed(mine, 2);
  });
}

TEST_F(ReplayCaptureTest, AGraphMayHaveTwoSteps) {
  Run(2, [&](ReplayRank& mine, int) {
    mine.BeginCapture();
    for (const int step : {0, 1}) {
      ASSERT_EQ(mine.engine().JoinCapture(mine.stream()), absl::OkStatus());
      ASSERT_EQ(mine.Step({.samples = 1.0 + step}, step == 0 ? 1 : 3),
                absl::OkStatus());
    }
    ASSERT_EQ(mine.EndCapture(absl::OkStatus()), absl::OkStatus());
    float sum = 0;
    for (int launch = 1; launch <= 6; ++launch) {
      mine.Launch(static_cast<float>(launch));
      sum += static_cast<float>(8 * launch);
    }
    for (uint64_t step = 0; step < 12; ++step) {
      const auto next = mine.Next();
      ASSERT_TRUE(next.ok()) << next.status();
      EXPECT_EQ(next->launch, step);
      EXPECT_EQ(next->verdict.samples, step % 2 == 0 ? 2 : 4);
    }
    ASSERT_EQ(mine.stream().Synchronize(), absl::OkStatus());
    EXPECT_EQ(mine.weights()[0], sum);
  });
}

}  // namespace
}  // namespace lockstep::gradient
