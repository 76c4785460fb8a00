// A call of a device fails once in a step, and the device goes on, as without
// memory: what the call would have enqueued, or ordered, is missing. The
// program learns of it, and no rank commits a sum that lacks it.

#include <functional>
#include <latch>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/gradient/capture_rank.h"
#include "tests/client/gradient/replay_rank.h"
#include "tests/support/failing_calls.h"
#include "tests/support/sanitizers.h"

namespace lockstep::gradient {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using transport::nccl::Tables;

constexpr int kCallsMax = 300;  // more than a step has
constexpr int kStride = kUnderThreadSanitizer ? 7 : 1;

// One rank and what it does; the gradients of w are 1.
class Attempt {
 public:
  virtual ~Attempt() = default;
  virtual absl::Status Prepare() { return absl::OkStatus(); }
  // Whether it committed, as far as the program knows.
  virtual absl::Status Step() = 0;
  virtual Stream& stream() = 0;
  virtual std::vector<float> weights() = 0;
};
using Make = std::unique_ptr<Attempt> (*)(BackendJob*, FakeGpuBackend*,
                                          int rank);

absl::Status MustCommit(const absl::StatusOr<Verdict>& verdict) {
  if (!verdict.ok() || verdict->committed) return verdict.status();
  return absl::InternalError("not committed");
}

class Eager : public Attempt {
 public:
  Eager(BackendJob* job, FakeGpuBackend* backend, int rank)
      : rank_(job, backend, rank) {}
  absl::Status Step() override {
    rank_.Load(1);
    absl::Status done = rank_.Step({.samples = 1});
    return done.ok() ? MustCommit(rank_.Wait()) : done;
  }
  Stream& stream() override { return rank_.stream(); }
  std::vector<float> weights() override { return rank_.weights(); }

 protected:
  ReplayRank rank_;
};

// The host applies the update, once it knows the verdict.
class OnHost final : public Eager {
 public:
  using Eager::Eager;
  absl::Status Step() override {
    rank_.Load(1);
    return rank_.StepOnHost({.samples = 1});
  }
};

// Another step is enqueued behind the last one.
class BehindTheLast final : public Eager {
 public:
  using Eager::Eager;
  absl::Status Step() override {
    rank_.Load(1);
    absl::Status done = rank_.Step({.samples = 1, .more_data = false});
    if (!done.ok()) return done;
    const auto last = rank_.last();
    (void)rank_.Step({.samples = 1});  // it is void, or refused
    return MustCommit(last->Wait());
  }
};

// The program captures a step and launches it.
class Replayed : public Eager {
 public:
  using Eager::Eager;
  absl::Status Prepare() override { return rank_.engine().BeginReplays(); }
  absl::Status Step() override {
    absl::Status captured = rank_.Capture();
    if (!captured.ok()) return captured;
    rank_.Launch(1, rank_.graphs() - 1);
    const auto next = rank_.Next();
    if (!next.ok()) return next.status();
    return MustCommit(next->verdict);
  }
};

// The library does.
class CapturedStep : public Attempt {
 public:
  CapturedStep(BackendJob* job, FakeGpuBackend*, int rank) : rank_(job, rank) {}
  absl::Status Step() override {
    absl::Status captured = rank_.Capture();
    return captured.ok() ? Launch() : captured;
  }
  Stream& stream() override { return rank_.stream(); }
  std::vector<float> weights() override { return rank_.weights(); }

 protected:
  absl::Status Launch() {
    rank_.Load(1);
    return MustCommit(rank_.Launch());
  }
  CaptureRank rank_;
};

class LaunchedStep final : public CapturedStep {
 public:
  using CapturedStep::CapturedStep;
  absl::Status Prepare() override { return rank_.Capture(); }
  absl::Status Step() override { return Launch(); }
};

template <typename Kind>
std::unique_ptr<Attempt> MakeOf(BackendJob* job, FakeGpuBackend* backend,
                                int rank) {
  return std::make_unique<Kind>(job, backend, rank);
}

class MissingOperationTest : public testing::Test {
 protected:
  ~MissingOperationTest() override {
    EXPECT_THAT(backend_.violations(), IsEmpty());
  }

  // Lets each call of rank 0's step fail, one after the other, in jobs of their
  // own; `captured`: on captured streams only.
  void FailEachCall(Make make, BackendJob::Options options,
                    bool captured = false) {
    options.parameters = kThree;
    bool was_hit = true;
    int waited_instead = 0;
    int call = 1;
    for (; was_hit; call += kStride) {
      ASSERT_LT(call, kCallsMax);
      BackendJob* all = nullptr;
      options.on_failure = [&](int, const absl::Status& error) {
        all->AbortAll(error);
      };
      BackendJob job(&backend_, options);
      all = &job;
      std::latch prepared(options.world);
      job.Run([&](int rank, Engine& engine) {
        const auto mine = make(&job, &backend_, rank);
        ASSERT_EQ(mine->Prepare(), absl::OkStatus());
        prepared.arrive_and_wait();
        if (rank == 0) calls_.FailAt(call, captured);
        const absl::Status done = mine->Step();
        const bool healthy = engine.healthy();
        if (rank == 0) {
          was_hit = calls_.End();
          // Where the program's stream cannot wait, FinishAsync does.
          const bool waited = done.ok() && was_hit && calls_.was_wait();
          waited_instead += waited ? 1 : 0;
          if (ends_every_epoch_) {
            EXPECT_EQ(done.ok() && healthy, !was_hit || waited)
                << "call " << call << ": " << done;
          }
        }
        (void)mine->stream().Synchronize();
        // What was committed has the gradients of all ranks.
        EXPECT_THAT(mine->weights()[0],
                    AnyOf(0, static_cast<float>(options.world)))
            << "rank " << rank << ", call " << call;
        ExpectReports(engine, *mine, done, rank, call);
        if (!healthy && rank == 0) {
          // The other rank may have read this one's invalid record before.
          EXPECT_THAT(engine.Submit(0, nullptr, 0, &mine->stream()).ToString(),
                      AnyOf(HasSubstr("fake error"),
                            HasSubstr("rank 0 has ended the epoch")));
        } else if (healthy && !done.ok() && options.world == 1) {
          EXPECT_THAT(mine->Step().ToString(),
                      AnyOf("OK", HasSubstr("fake error")))
              << "behind call " << call;
        }
      });
    }
    EXPECT_GT(call, 3);
    // Calls may come in another order.
    if (ends_every_epoch_) {
      EXPECT_LE(waited_instead, 3);
    }
  }

  // This rank says that it has passed the step if it has its update, and only
  // then.
  static void ExpectReports(Engine& engine, Attempt& mine,
                            const absl::Status& done, int rank, int call) {
    if (engine.healthy()) return;
    const auto report = engine.Report();
    ASSERT_TRUE(report.ok()) << report.status();
    const bool updated = mine.weights()[0] != 0;
    EXPECT_EQ(report->position.step, updated ? 1u : 0u)
        << "rank " << rank << ", call " << call << ": " << done;
  }

  bool ends_every_epoch_ = true;  // whichever call fails
  fake::FailingCalls calls_;
  FakeGpuBackend backend_{3, [this](int rank, Tables* tables) {
                            if (rank == 0) calls_.Decorate(tables);
                          }};
};

TEST_F(MissingOperationTest, InAStep) {
  for (const int world : {1, 2}) FailEachCall(MakeOf<Eager>, {.world = world});
}

TEST_F(MissingOperationTest, InAStepThatRunsAhead) {
  FailEachCall(MakeOf<Eager>, {.run_ahead = 1});
}

TEST_F(MissingOperationTest, InACapture) {
  FailEachCall(MakeOf<CapturedStep>, {.world = 1}, /*captured=*/true);
}

TEST_F(MissingOperationTest, InALaunch) {
  for (const int world : {1, 2}) {
    FailEachCall(MakeOf<LaunchedStep>, {.world = world});
  }
}

// The device ends the step before the host knows of the failure.
TEST_F(MissingOperationTest, InAStepThatTheHostApplies) {
  for (const int world : {1, 2}) FailEachCall(MakeOf<OnHost>, {.world = world});
}

TEST_F(MissingOperationTest, BehindTheLastStep) {
  ends_every_epoch_ = false;  // which may be over
  FailEachCall(MakeOf<BehindTheLast>, {.run_ahead = 1});
}

TEST_F(MissingOperationTest, LateInAStep) {
  calls_.FailLate();
  for (const int world : {1, 2}) FailEachCall(MakeOf<Eager>, {.world = world});
}

TEST_F(MissingOperationTest, LateInAStepThatRunsAhead) {
  calls_.FailLate();
  FailEachCall(MakeOf<Eager>, {.run_ahead = 1});
}

TEST_F(MissingOperationTest, LateInAStepThatTheHostApplies) {
  calls_.FailLate();
  for (const int world : {1, 2}) FailEachCall(MakeOf<OnHost>, {.world = world});
}

TEST_F(MissingOperationTest, LateBehindTheLastStep) {
  calls_.FailLate();
  ends_every_epoch_ = false;
  FailEachCall(MakeOf<BehindTheLast>, {.run_ahead = 1});
}

TEST_F(MissingOperationTest, LateInALaunch) {
  calls_.FailLate();
  for (const int world : {1, 2}) {
    FailEachCall(MakeOf<LaunchedStep>, {.world = world});
  }
}

// The device stays without memory.
TEST_F(MissingOperationTest, LastinglyInAStep) {
  calls_.FailLastingly();
  for (const int world : {1, 2}) FailEachCall(MakeOf<Eager>, {.world = world});
}

TEST_F(MissingOperationTest, LastinglyInALaunch) {
  calls_.FailLastingly();
  for (const int world : {1, 2}) {
    FailEachCall(MakeOf<LaunchedStep>, {.world = world});
  }
}

TEST_F(MissingOperationTest, LateAndLastinglyInALaunch) {
  calls_.FailLate();
  calls_.FailLastingly();
  for (const int world : {1, 2}) {
    FailEachCall(MakeOf<LaunchedStep>, {.world = world});
  }
}

TEST_F(MissingOperationTest, InACaptureOfTheProgram) {
  FailEachCall(MakeOf<Replayed>, {.world = 1}, /*captured=*/true);
}

}  // namespace
}  // namespace lockstep::gradient
