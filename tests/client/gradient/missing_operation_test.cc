// A call of a device fails once in a step, and the device goes on, as without
// memory: what the call would have enqueued, or ordered, is missing. The
// program learns of it, and no rank commits a sum that lacks it.

#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
constexpr int kStride = kUnderThreadSanitizer ? 9 : kUnderSanitizer ? 5 : 1;

// One rank and what it does; the gradients of w are 1.
class Attempt {
 public:
  virtual ~Attempt() = default;
  virtual absl::Status Prepare() { return absl::OkStatus(); }
  // Whether it committed, as far as the program knows.
  virtual absl::Status Step() = 0;
  virtual Stream& stream() = 0;
  // What Step has added to the weights.
  virtual std::vector<float> weights() = 0;
  // The steps that Prepare has run.
  virtual uint64_t steps_before() const { return 0; }
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

// Each rank updates its slice of kTwo, and gathers all of them for each step.
constexpr int kCount = 64;
const std::vector<Parameter> kTwo = {
    {.name = "w", .shape = {kCount}, .op = ReduceOp::kSum},
    {.name = "v", .shape = {kCount}, .op = ReduceOp::kSum}};

class Sliced final : public Attempt {
 public:
  Sliced(BackendJob* job, FakeGpuBackend*, int rank)
      : job_(*job),
        rank_(rank),
        stream_(job->MakeStream(rank)),
        seen_(job->Buffer(rank, std::vector<float>(2 * kCount))) {}
  ~Sliced() override { (void)stream_->Synchronize(); }

  absl::Status Prepare() override {
    absl::Status done = Step();
    return done.ok() ? stream_->Synchronize() : done;
  }
  uint64_t steps_before() const override { return 1; }
  Stream& stream() override { return *stream_; }
  absl::Status Step() override {
    absl::Status done = Gather();
    for (const int p : {0, 1}) {
      if (!done.ok()) return done;
      auto* const gradient = job_.Floats(engine().View(p)->data());
      job_.Enqueue(*stream_, [gradient] {
        std::fill(gradient, gradient + kCount, 1.0f);
      });
      done = engine().Submit(p, nullptr, 0, stream_.get());
    }
    if (!done.ok()) return done;
    auto verdict = engine().Finish({.samples = 1}, 1e6, stream_.get());
    if (!verdict.ok()) return verdict.status();
    Update(*verdict);
    verdicts_.push_back(*verdict);
    return MustCommit((*verdict)->Wait());
  }
  std::vector<float> weights() override {
    const float before = static_cast<float>(job_.world());
    const auto [p, slice] = Mine();
    const float added =
        job_.Floats(engine().Value(p).data())[slice.offset] - before;
    const bool has_seen_all = testing::Matches(testing::Each(before))(
        job_.Get(seen_.data(), 2 * kCount));
    return {added == 0 || has_seen_all ? added : -1.0f};
  }

 private:
  Engine& engine() { return job_.engine(rank_); }
  // The first slice of this rank that has elements.
  std::pair<int, plan::Slice> Mine() {
    const plan::Slice of_w = engine().SliceOf(0);
    return of_w.count > 0 ? std::pair(0, of_w)
                          : std::pair(1, engine().SliceOf(1));
  }
  absl::Status Gather() {
    absl::Status done = engine().GatherParameters(stream_.get());
    float* seen = job_.Floats(seen_.data());
    for (const int p : {0, 1}) {
      if (done.ok()) done = engine().AwaitParameter(p, stream_.get());
      if (!done.ok()) return done;
      const float* const value = job_.Floats(engine().Value(p).data());
      job_.Enqueue(*stream_,
                   [value, seen] { std::copy(value, value + kCount, seen); });
      seen += kCount;
    }
    return done;
  }
  void Update(const std::shared_ptr<PendingVerdict::State>& state) {
    const auto* const verdict =
        reinterpret_cast<const VerdictScalars*>(job_.Reach(state->scalars()));
    for (const int p : {0, 1}) {
      const plan::Slice slice = engine().SliceOf(p);
      auto* const value = job_.Floats(engine().Value(p).data());
      const auto* const gradient = job_.Floats(engine().View(p)->data());
      job_.Enqueue(*stream_, [verdict, value, gradient, slice] {
        if (!MayUpdate(*verdict)) return;
        for (int64_t i = 0; i < slice.count; ++i) {
          value[slice.offset + i] += gradient[slice.offset + i];
        }
      });
    }
  }

  BackendJob& job_;
  const int rank_;
  const std::unique_ptr<Stream> stream_;
  const ArenaBuffer seen_;
  std::vector<std::shared_ptr<PendingVerdict::State>> verdicts_;
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
    if (options.parameters.empty()) options.parameters = kThree;
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
      std::latch stepped(options.world);
      std::vector<std::optional<protocol::EpochReport>> reports(options.world);
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
        // A program that gives up takes the others with it.
        if (healthy && !done.ok() && options.world > 1) job.AbortAll(done);
        stepped.arrive_and_wait();
        (void)mine->stream().Synchronize();
        // What was committed has the gradients of all ranks.
        EXPECT_THAT(mine->weights()[0],
                    AnyOf(0, static_cast<float>(options.world)))
            << "rank " << rank << ", call " << call;
        reports[rank] = Report(engine, *mine, done, rank, call);
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
      RollForward(job, reports);
      if (HasFailure()) FAIL() << "call " << call;
    }
    EXPECT_GT(call, 3);
    // Calls may come in another order.
    if (ends_every_epoch_) {
      EXPECT_LE(waited_instead, 3);
    }
  }

  // This rank says that it has passed the step if it has its update, and only
  // then. No value: its epoch has not ended.
  static std::optional<protocol::EpochReport> Report(Engine& engine,
                                                     Attempt& mine,
                                                     const absl::Status& done,
                                                     int rank, int call) {
    if (engine.healthy()) return std::nullopt;
    const auto report = engine.Report();
    EXPECT_TRUE(report.ok()) << report.status();
    if (!report.ok()) return std::nullopt;
    const bool updated = mine.weights()[0] != 0;
    EXPECT_EQ(report->position.step - mine.steps_before(), updated ? 1u : 0u)
        << "rank " << rank << ", call " << call << ": " << done;
    return *report;
  }
  // A rank that is behind has contributed: it has the step's gradients.
  static void RollForward(
      BackendJob& job,
      const std::vector<std::optional<protocol::EpochReport>>& reports) {
    std::vector<protocol::EpochReport> all;
    for (const auto& report : reports) {
      if (report) all.push_back(*report);
    }
    if (all.size() == reports.size()) job.RollForwardWhoIsBehind(all);
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

TEST_F(MissingOperationTest, InAStepOfSlices) {
  FailEachCall(MakeOf<Sliced>,
               {.parameters = kTwo, .sync = SyncMode::kReduceScatter});
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

TEST_F(MissingOperationTest, LateInAStepOfSlices) {
  calls_.FailLate();
  FailEachCall(MakeOf<Sliced>,
               {.parameters = kTwo, .sync = SyncMode::kReduceScatter});
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
