// Reductions in place that an end of the epoch interrupts, on some ranks behind
// their end and on others in their middle: what they have written reaches
// neither the replay of the step nor the gradients that the program holds.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "client/transport/shm/shm.h"
#include "lockstep/gradient_sync.h"
#include "lockstep/recovery.h"
#include "lockstep/state_replicas.h"
#include "tests/client/session/inproc_job_fixture.h"
#include "tests/support/sanitizers.h"

namespace lockstep::session {
namespace {

constexpr size_t kLength = 60'000;  // of each parameter, a bucket for itself
constexpr int64_t kInterrupted = kUnderSanitizer ? 12 : 40;  // steps
// The last step is not interrupted: a failure that is reported behind the last
// verdict ends the epoch, and Leave rightly says so.
constexpr int64_t kSteps = kInterrupted + 1;

using Vector = std::vector<double>;

// Whole numbers, so that sums are exact.
double GradientAt(int rank, int64_t step, size_t i) {
  return static_cast<double>(rank + 1) * static_cast<double>(step % 7 + 1) +
         static_cast<double>(i % 1000);
}
double SumAt(int world, int64_t step, size_t i) {
  double sum = 0;
  for (int rank = 0; rank < world; ++rank) sum += GradientAt(rank, step, i);
  return sum;
}

// A worker's program: one parameter's gradient is added up in the view, as by
// backward passes of frameworks; the other's is computed once into a buffer,
// which a replay submits again.
struct Program {
  Vector viewed = Vector(kLength), buffered = Vector(kLength);  // weights
  int64_t step = 0;
  Vector buffer = Vector(kLength);
  int64_t computed_step = -1;  // of the buffer

  void ComputeOnce(int rank) {
    if (computed_step == step) return;
    for (size_t i = 0; i < kLength; ++i) {
      buffer[i] = GradientAt(rank, step, i);
    }
    computed_step = step;
  }
  bool BufferIsIntact(int rank) const {
    // The first epoch may end before this rank has computed anything.
    const bool is_new = computed_step < 0;
    for (size_t i = 0; i < kLength; ++i) {
      const double mine = is_new ? 0 : GradientAt(rank, computed_step, i);
      if (buffer[i] != mine) return false;
    }
    return true;
  }
  void Update(absl::Span<const double> of_view,
              absl::Span<const double> of_buffer) {
    for (size_t i = 0; i < kLength; ++i) {
      viewed[i] += of_view[i];
      buffered[i] += of_buffer[i];
    }
    step += 1;
  }
};

// Where a step is interrupted by the rank step % kWorld.
enum class Interruption : uint8_t {
  kBetweenBuckets,  // the first bucket is reduced, the second cannot be
  kAtAnyMoment,     // of the reductions and the verdict
};

class AbortedReduceTest : public InprocJobFixture,
                          public testing::WithParamInterface<Interruption> {
 protected:
  AbortedReduceTest() {
    spec_.mesh = {{{"data", kWorld}}};
    spec_.limits.max_restarts = 1000;
    spec_.buckets.bytes_max = kLength * sizeof(double);
  }

  // As InprocJobFixture, with shared memory, which is reduced in pieces.
  Joined Join(const JoinOptions& options) override {
    return Session::Impl::Join(
        options,
        {.channels = MakeFakeChannels(&server_),
         .make_transport =
             [](const JobSpec&) { return transport::MakeShmTransport(); },
         .clock = clock_,
         .process = {"host", 1, "boot", 1},
         .incarnation = ++incarnations_});
  }

  void Work(int worker) {
    Program program;
    std::optional<Recovery> recovered;
    while (program.step < kSteps) {
      JoinOptions options = OptionsOf(worker);
      options.recovered = recovered;
      Joined session = Join(options);
      ASSERT_TRUE(session.ok()) << session.status();
      recovered.reset();
      TrainInOneEpoch(**session, &program, &recovered);
      if (HasFatalFailure()) return;
      if (program.step == kSteps && !recovered) {
        EXPECT_EQ((*session)->Leave(), absl::OkStatus());
      }
    }
    for (size_t i = 0; i < kLength; ++i) {
      double expected = 0;
      for (int64_t s = 0; s < kSteps; ++s) expected += SumAt(kWorld, s, i);
      ASSERT_EQ(program.viewed[i], expected) << "element " << i;
      ASSERT_EQ(program.buffered[i], expected) << "element " << i;
    }
  }

  void TrainInOneEpoch(Session& session, Program* program,
                       std::optional<Recovery>* recovered) {
    auto replicas = *StateReplicas::Create(session);
    for (auto& [name, weights] : {std::pair{"viewed", &program->viewed},
                                  std::pair{"buffered", &program->buffered}}) {
      EXPECT_TRUE(
          session
              .RegisterState(
                  {.name = name, .dtype = DType::kF64, .shape = {kLength}},
                  weights->data())
              .ok());
    }
    EXPECT_TRUE(session.RegisterScalar("step", &program->step).ok());
    auto sync = *GradientSync::Create(session);
    std::array<ParameterId, 2> ids;
    for (int p : {0, 1}) {
      ids[p] = *sync->Register({.name = p == 0 ? "viewed" : "buffered",
                                .shape = {kLength},
                                .dtype = DType::kF64,
                                .op = ReduceOp::kSum});
    }
    absl::Status ready = sync->Seal();
    if (ready.ok()) ready = replicas->Resume().status();
    if (ready.ok()) {
      for (const ParameterId id : ids) {
        const absl::Span<const double> view = *sync->Gradient<double>(id);
        ASSERT_EQ(std::count(view.begin(), view.end(), 0.0),
                  static_cast<int64_t>(kLength))
            << "a new epoch's buckets have sums of the one before";
      }
    }
    while (ready.ok() && program->step < kSteps) {
      ready = Step(session, *sync, ids, program);
      sync->ZeroGradients();
    }
    if (ready.ok()) return;
    const absl::StatusOr<Recovery> recovery = session.Recover();
    ASSERT_TRUE(recovery.ok()) << recovery.status() << " after " << ready;
    ASSERT_NE(recovery->kind, RecoveryKind::kRestore);
    replays_ += recovery->kind == RecoveryKind::kReplay;
    if (recovery->verdict) {
      program->Update(*sync->Gradient<double>(ids[0]),
                      *sync->Gradient<double>(ids[1]));
    }
    EXPECT_TRUE(program->BufferIsIntact(session.rank()));
    *recovered = *recovery;
  }

  absl::Status Step(Session& session, GradientSync& sync,
                    const std::array<ParameterId, 2>& ids, Program* program) {
    const int64_t step = program->step;
    const bool interrupts =
        step < kInterrupted && session.rank() == step % kWorld &&
        interrupted_[static_cast<size_t>(step)].exchange(1) == 0;
    program->ComputeOnce(session.rank());
    const absl::Span<double> view = *sync.Gradient<double>(ids[0]);
    for (size_t i = 0; i < kLength; ++i) {
      view[i] += GradientAt(session.rank(), step, i);
    }
    const auto fail = [&session] {
      session.ReportFailure("Test", absl::InternalError("injected"));
    };
    std::thread later;
    if (interrupts && GetParam() == Interruption::kAtAnyMoment) {
      std::mt19937_64 random(static_cast<uint64_t>(step));
      const auto wait = absl::Microseconds(random() % 2000);
      later = std::thread([fail, wait] {
        absl::SleepFor(wait);
        fail();
      });
    }
    absl::Status status = sync.Submit(ids[0]);
    if (interrupts && GetParam() == Interruption::kBetweenBuckets) {
      absl::SleepFor(absl::Milliseconds(1));
      fail();
    }
    if (status.ok()) {
      status =
          sync.Submit(ids[1], program->buffer.data(), kLength * sizeof(double));
    }
    if (status.ok()) status = sync.Finish({.samples = 1}).status();
    if (later.joinable()) later.join();
    if (!status.ok()) return status;
    program->Update(*sync.Gradient<double>(ids[0]),
                    *sync.Gradient<double>(ids[1]));
    return absl::OkStatus();
  }

  std::array<std::atomic<int>, kInterrupted> interrupted_{};
  std::atomic<int> replays_ = 0;
};

TEST_P(AbortedReduceTest, PartialSumsReachNoReplay) {
  std::vector<std::thread> workers;
  for (int i = 0; i < kWorld; ++i) workers.emplace_back([this, i] { Work(i); });
  for (std::thread& worker : workers) worker.join();
  // Another rank may have to catch up with the step before first.
  EXPECT_GE(replays_,
            GetParam() == Interruption::kBetweenBuckets ? kInterrupted : 1);
}

INSTANTIATE_TEST_SUITE_P(Interrupted, AbortedReduceTest,
                         testing::Values(Interruption::kBetweenBuckets,
                                         Interruption::kAtAnyMoment),
                         [](const auto& info) {
                           return info.param == Interruption::kBetweenBuckets
                                      ? "BetweenBuckets"
                                      : "AtAnyMoment";
                         });

}  // namespace
}  // namespace lockstep::session
