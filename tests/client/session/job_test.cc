// Whole jobs in one process: sessions over the real coordinator core and the
// in-process transport.

#include <algorithm>
#include <atomic>
#include <functional>
#include <stdexcept>
#include <thread>

#include "tests/client/session/job_fixture.h"
#include "tests/support/fake_control_core.h"
#include "tests/support/inproc/inproc.h"

namespace lockstep::session {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const protocol::ProcessInfo kProcess{"host", 1, "boot", 1};

// A transport whose process dies when it connects.
class DyingTransport : public transport::Transport {
 public:
  DyingTransport(std::unique_ptr<transport::Transport> inner,
                 std::function<void()> die)
      : inner_(std::move(inner)), die_(std::move(die)) {}

  std::string_view name() const override { return inner_->name(); }
  TransportFacts facts() const override { return inner_->facts(); }

  absl::StatusOr<std::unique_ptr<transport::PendingGroup>> Prepare(
      const transport::GroupSpec& group) override {
    auto pending = inner_->Prepare(group);
    if (!pending.ok()) return pending;
    return std::make_unique<Pending>(*std::move(pending), die_);
  }

 private:
  class Pending : public transport::PendingGroup {
   public:
    Pending(std::unique_ptr<transport::PendingGroup> inner,
            std::function<void()> die)
        : inner_(std::move(inner)), die_(std::move(die)) {}
    const std::string& handle() const override { return inner_->handle(); }
    absl::StatusOr<std::unique_ptr<Communicator>> Connect(
        const std::vector<std::string>&, absl::Duration) override {
      die_();
      return absl::AbortedError("dead");
    }
    void Abort(std::string_view cause) override { inner_->Abort(cause); }

   private:
    const std::unique_ptr<transport::PendingGroup> inner_;
    const std::function<void()> die_;
  };

  const std::unique_ptr<transport::Transport> inner_;
  const std::function<void()> die_;
};

class JobTest : public JobFixture {
 protected:
  JobTest() { spec_.transport = "shm"; }

  Joined Join(const JoinOptions& options) override {
    return Session::Impl::Join(
        options, {.channels = MakeFakeChannels(&server_),
                  .make_transport =
                      [this, worker = options.worker](const JobSpec&) {
                        return MakeTransport(worker);
                      },
                  .clock = clock_,
                  .process = kProcess,
                  .incarnation = ++incarnations_});
  }

  // Waits until the epoch has ended for this rank.
  static absl::Status WhyEnded(Session& session) {
    std::promise<absl::Status> ended;
    const uint64_t watch = session.impl().AddWatch(
        [&ended](const absl::Status& why) { ended.set_value(why); });
    const absl::Status why = ended.get_future().get();
    session.impl().RemoveWatch(watch);
    return why;
  }

  absl::Status ReportDeath(const std::string& worker) {
    return server_.Ask([&](core::RequestId request) {
      return core::ReportEvidence{
          .request = request,
          .job = {"job"},
          .evidence = {.subject = {worker},
                       .kind = protocol::EvidenceKind::kExited,
                       .detail = "killed by signal 9",
                       .process = kProcess}};
    });
  }

  ~JobTest() override { sessions_.clear(); }

  absl::StatusOr<std::unique_ptr<transport::Transport>> MakeTransport(
      const std::string& worker) {
    auto transport = transport::MakeInprocTransport(&hub_);
    if (worker != dies_in_connect_) return transport;
    return std::make_unique<DyingTransport>(
        std::move(transport),
        [this, worker] { EXPECT_TRUE(ReportDeath(worker).ok()); });
  }

  std::string dies_in_connect_;  // the worker that dies
  std::shared_ptr<Clock> clock_ = std::make_shared<SystemClock>();
  std::atomic<uint64_t> incarnations_ = 0;
  CoreServer server_{clock_.get()};
  transport::InprocHub hub_;
};

TEST_F(JobTest, FromJoinToLeave) {
  JoinAll();
  for (int rank = 0; rank < kWorld; ++rank) {
    EXPECT_EQ(sessions_[rank]->rank(), rank);
    EXPECT_EQ(sessions_[rank]->world_size(), kWorld);
  }
  auto plans = SealAll();
  ASSERT_EQ(plans.size(), 4u);
  for (const PlanInEffect& plan : plans) {
    EXPECT_EQ(plan.plan, plans[0].plan);
    ASSERT_EQ(static_cast<size_t>(plan.executor->communicators()),
              plan.plan.communicators.size());
    for (int c = 0; c < plan.executor->communicators(); ++c) {
      const Communicator* const member = plan.executor->communicator(c);
      const std::vector<int>& ranks = plan.plan.communicators[c].ranks;
      const auto place = std::find(ranks.begin(), ranks.end(), plan.rank);
      ASSERT_EQ(member != nullptr, place != ranks.end());
      if (place == ranks.end()) continue;
      EXPECT_EQ(member->rank(), place - ranks.begin());
      EXPECT_EQ(member->size(), static_cast<int>(ranks.size()));
    }
  }
  ExpectSums(plans);
  LeaveAll();
  EXPECT_EQ(server_.Describe("job")->state, JobState::kCompleted);
}

TEST_F(JobTest, TrainsOnWhileTheCoordinatorIsAwayAndComesBack) {
  JoinAll();
  auto plans = SealAll();
  server_.Crash();
  ExpectSums(plans);
  server_.Restart();
  server_.CutStreams();
  ExpectSums(plans);
  LeaveAll();
  EXPECT_EQ(server_.Describe("job")->state, JobState::kCompleted);
  EXPECT_EQ(server_.Describe("job")->epoch, EpochId{1});
}

TEST_F(JobTest, StreamsAreCutInEveryStageAndNothingIsLost) {
  std::atomic<bool> done = false;
  std::thread cutter([&] {
    for (int cuts = 0; cuts < 30 && !done;) {
      if (server_.streams() == kWorld) {
        server_.CutStreams();
        ++cuts;
      }
      std::this_thread::yield();
    }
  });
  JoinAll();
  auto plans = SealAll();
  done = true;
  cutter.join();
  ASSERT_EQ(plans.size(), 4u);
  ExpectSums(plans);
  LeaveAll();
  EXPECT_EQ(server_.Describe("job")->epoch, EpochId{1});
}

TEST_F(JobTest, AMismatchIsOneErrorToEveryRank) {
  JoinAll();
  const auto sealed = OnAll([](auto& impl, int rank) {
    return Seal(impl, rank, /*elements=*/rank == 3 ? 9 : 8).status();
  });
  for (const absl::Status& status : sealed) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("w"), HasSubstr("[9]"),
                                        HasSubstr("[8]"), HasSubstr("3")));
  }
}

TEST_F(JobTest, ALocalFailureReachesEveryRankWithCallAndMessage) {
  JoinAll();
  auto plans = SealAll();
  sessions_[2]->ReportFailure("Train", absl::InternalError("loss is NaN"));
  const auto statuses = OnAll([](auto& impl, int) {
    return impl.Explain("Finish", absl::UnavailableError("reset"));
  });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("worker-2"), HasSubstr("rank 2"),
                      HasSubstr("Train"), HasSubstr("loss is NaN")));
  }
}

TEST_F(JobTest, ADeathWhileOthersWaitIsTheirStatus) {
  JoinAll();
  // Rank 1 never registers; the others wait for it.
  auto dead = std::move(sessions_[1]);
  sessions_.erase(sessions_.begin() + 1);
  std::thread death([this] {
    while (server_.Describe("job")->waits.size() < 3) {
      std::this_thread::yield();
    }
    EXPECT_TRUE(ReportDeath("worker-1").ok());
  });
  const auto sealed =
      OnAll([](auto& impl, int rank) { return Seal(impl, rank).status(); });
  death.join();
  for (const absl::Status& status : sealed) {
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("worker-1"), HasSubstr("killed by signal 9")));
  }
  dead.reset();
}

TEST_F(JobTest, ADeathWhileOthersConnectEndsTheirConnecting) {
  spec_.timeouts.connect = absl::Hours(1);
  dies_in_connect_ = "worker-3";
  JoinAll();
  const auto sealed =
      OnAll([](auto& impl, int rank) { return Seal(impl, rank).status(); });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(sealed[rank].code(), absl::StatusCode::kAborted);
    EXPECT_THAT(sealed[rank].message(),
                AllOf(HasSubstr("worker-3"), HasSubstr("killed by signal 9")));
  }
}

TEST_F(JobTest, AnOperatorsStopIsEveryonesStatus) {
  JoinAll();
  EXPECT_TRUE(server_
                  .Ask([](core::RequestId request) {
                    return core::StopJob{request, {"job"}, "", "maintenance"};
                  })
                  .ok());
  const auto statuses = OnAll([](auto& impl, int) {
    return impl.Explain("Finish", absl::UnavailableError("reset"));
  });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
    EXPECT_THAT(status.message(), HasSubstr("maintenance"));
  }
}

// --- Bad input --------------------------------------------------------------

TEST_F(JobTest, ATakenNameIsRefusedAndItsHolderNamed) {
  JoinAll();
  const absl::Status status = JoinAsync(OptionsOf(1)).get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("worker-1"), HasSubstr("host"),
                                      HasSubstr("pid 1")));
}

TEST_F(JobTest, AnotherSpecIsRefusedWithTheFieldsThatDiffer) {
  JoinAll();
  JoinOptions options = OptionsOf(1);
  options.spec->buckets.bytes_max = 1 << 10;
  const absl::Status status = JoinAsync(options).get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("buckets.bytes_max"));
}

TEST_F(JobTest, AFullJobRefusesAFifthWorker) {
  JoinAll();
  EXPECT_EQ(JoinAsync(OptionsOf(4)).get().status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(JobTest, AJobThatNobodyCreatedNeedsASpec) {
  JoinOptions options = OptionsOf(0);
  options.spec.reset();
  EXPECT_FALSE(JoinAsync(options).get().ok());
}

TEST_F(JobTest, ATokenThatIsNotTheJobsIsRefused) {
  EXPECT_TRUE(server_
                  .Ask([this](core::RequestId request) {
                    return core::CreateJob{request, spec_, "secret"};
                  })
                  .ok());
  JoinOptions options = OptionsOf(0);
  options.token = "guess";
  EXPECT_EQ(JoinAsync(options).get().status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(JobTest, WorkersThatAreMissingAtTheDeadlineAreNamed) {
  spec_.workers = {"worker-0", "worker-1", "worker-2", "worker-3"};
  spec_.timeouts.join = absl::Milliseconds(100);
  const absl::Status status = JoinAsync(OptionsOf(2)).get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("worker-0"), HasSubstr("worker-1"),
                    HasSubstr("worker-3")));
}

TEST_F(JobTest, AnExceptionThatUnwindsOneRankIsNamedToTheOthers) {
  JoinAll();
  auto plans = SealAll();
  plans.clear();
  try {
    const std::unique_ptr<Session> unwound = std::move(sessions_[1]);
    throw std::runtime_error("out of cheese");
  } catch (const std::runtime_error&) {
  }
  const absl::Status ended = WhyEnded(*sessions_[0]);
  EXPECT_THAT(ended.message(),
              AllOf(HasSubstr("worker-1 (rank 1"),
                    HasSubstr("an exception is unwinding its program")));
}

}  // namespace
}  // namespace lockstep::session
