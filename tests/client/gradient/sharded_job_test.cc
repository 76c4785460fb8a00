// Whole jobs whose ranks update slices: GradientSync, the session and the real
// coordinator core, in one process. Workers die, operators pause, norms are
// clipped.

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "lockstep/gradient_sync.h"
#include "tests/client/session/job_fixture.h"
#include "tests/support/fake_control_core.h"
#include "tests/support/inproc/inproc.h"

namespace lockstep::session {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Parameters whose counts are no multiples of four ranks, in two buckets.
constexpr size_t kSizes[] = {70, 3, 129};
constexpr double kNoLimit = std::numeric_limits<double>::infinity();
using Values = std::vector<std::vector<float>>;  // by parameter

// Element i of the gradient of parameter p, of rank 0 in step 0.
float Pattern(size_t p, size_t i) {
  return static_cast<float>(p + 1) + static_cast<float>(i % 7);
}
// Scales the gradient: whole numbers, so that all sums are exact.
float ScaleOf(int rank, uint64_t step) {
  return static_cast<float>((rank + 1) * (step % 4 + 1));
}

// One process that trains on the data of `ranks` ranks.
class Alone {
 public:
  explicit Alone(int ranks) : ranks_(ranks) {
    for (const size_t size : kSizes) values_.emplace_back(size);
  }
  // Returns the gradient's norm.
  double Step(double max_norm = kNoLimit) {
    float scale = 0;
    for (int rank = 0; rank < ranks_; ++rank) scale += ScaleOf(rank, step_);
    ++step_;
    double squares = 0;
    ForEach([&](size_t p, size_t i) {
      squares += std::pow(scale * Pattern(p, i), 2);
    });
    const double norm = std::sqrt(squares);
    const float factor = static_cast<float>(std::min(1.0, max_norm / norm));
    ForEach([&](size_t p, size_t i) {
      values_[p][i] -= factor * (scale * Pattern(p, i));
    });
    return norm;
  }
  const Values& After(int steps) {
    for (int step = 0; step < steps; ++step) Step();
    return values_;
  }
  const Values& values() const { return values_; }

 private:
  template <typename F>
  void ForEach(F f) {
    for (size_t p = 0; p < std::size(kSizes); ++p) {
      for (size_t i = 0; i < kSizes[p]; ++i) f(p, i);
    }
  }
  const int ranks_;
  uint64_t step_ = 0;
  Values values_;
};

// One rank's training.
class Program {
 public:
  // Begins at `step` with these values, or with zeros.
  absl::Status Begin(Session& session, const Values& values, uint64_t step) {
    rank_ = session.rank();
    step_ = step;
    auto sync = GradientSync::Create(session);
    if (!sync.ok()) return sync.status();
    sync_ = *std::move(sync);
    for (size_t p = 0; p < std::size(kSizes); ++p) {
      auto id = sync_->Register({.name = "p" + std::to_string(p),
                                 .shape = {static_cast<int64_t>(kSizes[p])},
                                 .op = ReduceOp::kSum});
      if (!id.ok()) return id.status();
      ids_.push_back(*id);
    }
    if (absl::Status sealed = sync_->Seal(); !sealed.ok()) return sealed;
    for (size_t p = 0; p < values.size(); ++p) {
      std::copy(values[p].begin(), values[p].end(),
                sync_->Value<float>(ids_[p])->begin());
    }
    return absl::OkStatus();
  }

  // Gathers the slices that others have updated; then all values are of one
  // step.
  absl::Status Gather() {
    absl::Status gathered = sync_->GatherParameters();
    for (const ParameterId id : ids_) {
      if (gathered.ok()) gathered = sync_->AwaitParameter(id);
    }
    return gathered;
  }

  // Runs the rest of a step and updates this rank's slices.
  absl::StatusOr<Verdict> Finish(double max_norm = kNoLimit, bool more = true) {
    for (size_t p = 0; p < ids_.size(); ++p) {
      const absl::Span<float> gradient = *sync_->Gradient<float>(ids_[p]);
      for (size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = ScaleOf(rank_, step_) * Pattern(p, i);
      }
      absl::Status submitted = sync_->Submit(ids_[p]);
      if (!submitted.ok()) return submitted;
    }
    auto verdict = sync_->Finish({.more_data = more});
    if (!verdict.ok()) return verdict;
    ++step_;
    const float factor = static_cast<float>(verdict->UpdateFactor(max_norm));
    for (const ParameterId id : ids_) {
      const ParameterSlice slice = *sync_->Slice(id);
      const absl::Span<float> value = *sync_->Value<float>(id);
      const absl::Span<float> gradient = *sync_->Gradient<float>(id);
      for (size_t i = slice.offset; i < slice.offset + slice.count; ++i) {
        value[i] -= factor * gradient[i];
      }
    }
    return verdict;
  }

  absl::StatusOr<Verdict> Step(double max_norm = kNoLimit, bool more = true) {
    absl::Status gathered = Gather();
    if (!gathered.ok()) return gathered;
    return Finish(max_norm, more);
  }

  Values Read() const {
    Values values;
    for (const ParameterId id : ids_) {
      const absl::Span<float> value = *sync_->Value<float>(id);
      values.emplace_back(value.begin(), value.end());
    }
    return values;
  }
  void End() { sync_.reset(); }

 private:
  int rank_ = 0;
  uint64_t step_ = 0;
  std::unique_ptr<GradientSync> sync_;
  std::vector<ParameterId> ids_;
};

class ShardedJobTest : public JobFixture {
 protected:
  ShardedJobTest() {
    spec_.transport = "shm";
    spec_.mesh = {{{"data", kWorld}}};
    spec_.sync = SyncMode::kReduceScatter;
    spec_.buckets = {.first_bytes_max = 600, .bytes_max = 4096};
    spec_.limits.max_restarts = 1;
  }
  ~ShardedJobTest() override { sessions_.clear(); }

  Joined Join(const JoinOptions& options) override {
    return Session::Impl::Join(
        options, {.channels = MakeFakeChannels(&server_),
                  .make_transport = [this](const JobSpec&)
                      -> absl::StatusOr<std::unique_ptr<transport::Transport>> {
                    return transport::MakeInprocTransport(&hub_);
                  },
                  .clock = clock_,
                  .process = {"host", 1, "boot", 1},
                  .incarnation = ++incarnations_});
  }

  // All ranks join, begin with `values`, run `live` and leave the session.
  void Epoch(const Values& values, uint64_t step,
             const std::function<void(int rank, Program& program)>& live) {
    JoinAll();
    ASSERT_EQ(sessions_.size(), size_t{kWorld});
    std::vector<std::thread> threads;
    for (auto& session : sessions_) {
      threads.emplace_back([&, session = session.get()] {
        Program program;
        const absl::Status begun = program.Begin(*session, values, step);
        ASSERT_TRUE(begun.ok()) << begun;
        live(session->rank(), program);
        program.End();
      });
    }
    for (std::thread& thread : threads) thread.join();
    sessions_.clear();
  }

  absl::Status ReportDeath(int rank) {
    const WorkerName name = Describe().workers[rank].name;
    return server_.Ask([&](core::RequestId request) {
      return core::ReportEvidence{
          .request = request,
          .job = {"job"},
          .evidence = {.subject = name,
                       .kind = protocol::EvidenceKind::kExited,
                       .detail = "killed by signal 9",
                       .process = {"host", 1, "boot", 1}}};
    });
  }
  absl::Status Ask(JobCommand command) {
    return server_.Ask([&](core::RequestId request) {
      return core::CommandJob{request, {"job"}, "", command};
    });
  }
  JobView Describe() { return *server_.Describe("job"); }

  std::shared_ptr<Clock> clock_ = std::make_shared<SystemClock>();
  std::atomic<uint64_t> incarnations_ = 0;
  CoreServer server_{clock_.get()};
  transport::InprocHub hub_;
};

// Rank 2 dies in step 3, after the gather at its beginning. The survivors then
// have all values of the reference process, and repeat the step.
TEST_F(ShardedJobTest, AStepThatIsLostIsDoneAgainInTheNextEpoch) {
  constexpr int kVictim = 2;
  std::vector<Values> kept(kWorld);
  std::atomic<int> gathered = 0;
  Epoch({}, 0, [&](int rank, Program& program) {
    for (int step = 0; step < 3; ++step) ASSERT_TRUE(program.Step().ok());
    ASSERT_TRUE(program.Gather().ok());
    ++gathered;
    if (rank == kVictim) {
      while (gathered < kWorld) std::this_thread::yield();
      ASSERT_TRUE(ReportDeath(kVictim).ok());
      return;
    }
    const absl::Status lost = program.Finish().status();
    EXPECT_EQ(lost.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(lost.message(), HasSubstr("killed by signal 9"));
    kept[rank] = program.Read();
  });
  const Values expected = Alone(kWorld).After(3);
  for (int rank = 0; rank < kWorld; ++rank) {
    if (rank == kVictim) continue;
    EXPECT_EQ(kept[rank], expected) << "rank " << rank;
  }

  Epoch(kept[0], 3, [&](int rank, Program& program) {
    for (int step = 3; step < 6; ++step) ASSERT_TRUE(program.Step().ok());
    ASSERT_TRUE(program.Gather().ok());
    EXPECT_EQ(program.Read(), Alone(kWorld).After(6)) << "rank " << rank;
  });
  EXPECT_EQ(Describe().epoch, EpochId{2});
}

// Ranks pause between a verdict and the update of their slices.
TEST_F(ShardedJobTest, PausesAndGoesOnWithWhatItHad) {
  std::atomic<uint64_t> passed = 0;
  std::atomic<bool> enough = false;
  std::thread operators([&] {
    while (passed == 0) std::this_thread::yield();
    ASSERT_TRUE(Ask(JobCommand::kPause).ok());
    const auto paused = [this] {
      const JobView view = Describe();
      return std::all_of(
          view.workers.begin(), view.workers.end(),
          [](const WorkerView& worker) { return worker.paused; });
    };
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (!paused() && absl::Now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(paused());
    const uint64_t then = passed;
    ASSERT_TRUE(Ask(JobCommand::kResume).ok());
    while (passed < then + 3 && absl::Now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_GE(passed, then + 3);
    enough = true;
  });
  Epoch({}, 0, [&](int rank, Program& program) {
    int steps = 0;
    for (bool last = false; !last; ++steps) {
      const auto verdict = program.Step(kNoLimit, rank != 0 || !enough);
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      if (rank == 0) ++passed;
      last = verdict->IsLast();
    }
    ASSERT_TRUE(program.Gather().ok());
    EXPECT_EQ(program.Read(), Alone(kWorld).After(steps)) << "rank " << rank;
  });
  operators.join();
}

// Each rank has only a part of the gradients; the norm covers all.
TEST_F(ShardedJobTest, ClipsByTheNormOfAllSlices) {
  constexpr double kMaxNorm = 100;
  Epoch({}, 0, [&](int rank, Program& program) {
    Alone alone(kWorld);
    for (int step = 0; step < 4; ++step) {
      const auto verdict = program.Step(kMaxNorm);
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      const double norm = alone.Step(kMaxNorm);
      EXPECT_GT(norm, kMaxNorm);
      EXPECT_DOUBLE_EQ(verdict->global_norm, norm);
    }
    ASSERT_TRUE(program.Gather().ok());
    const Values values = program.Read();
    for (size_t p = 0; p < values.size(); ++p) {
      for (size_t i = 0; i < values[p].size(); ++i) {
        ASSERT_FLOAT_EQ(values[p][i], alone.values()[p][i])
            << "element " << i << " of p" << p << " on rank " << rank;
      }
    }
  });
}

}  // namespace
}  // namespace lockstep::session
