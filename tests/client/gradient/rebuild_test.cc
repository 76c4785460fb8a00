// Whole jobs whose buckets are rebuilt during training: GradientSync, the
// session and the real coordinator core, in one process.

#include <atomic>
#include <functional>

#include "lockstep/gradient_sync.h"
#include "tests/client/session/job_fixture.h"
#include "tests/support/fake_control_core.h"
#include "tests/support/inproc/inproc.h"

namespace lockstep::session {
namespace {

using testing::Each;
using testing::ElementsAre;

// The step limit of a test that waits for a switch; each step takes some 100
// us.
constexpr uint64_t kTimeout = 100'000;
const std::vector<std::string> kNames = {"a", "b", "c", "d"};

// One rank's training: gradients become ready in the order of registration, the
// worst order for the first buckets. Views are kept.
class Program {
 public:
  absl::Status Begin(Session& session, bool may_move) {
    rank_ = session.rank();
    world_ = session.world_size();
    auto sync = GradientSync::Create(session);
    if (!sync.ok()) return sync.status();
    sync_ = *std::move(sync);
    for (const std::string& name : kNames) {
      // Half of them are reduced over one row of the mesh only.
      const bool shared = name == "a" || name == "c";
      auto id =
          sync_->Register({.name = name,
                           .shape = {100},
                           .op = ReduceOp::kSum,
                           .axes = shared ? std::vector<std::string>{}
                                          : std::vector<std::string>{"data"}});
      if (!id.ok()) return id.status();
      ids_.push_back(*id);
    }
    if (absl::Status sealed = sync_->Seal(); !sealed.ok()) return sealed;
    if (may_move) {
      sync_->OnMoved([this] {
        ++moves_;
        Fetch();
      });
    }
    Fetch();
    return absl::OkStatus();
  }

  absl::StatusOr<Verdict> Step(bool more = true) {
    const float step = static_cast<float>(sync_->step() % 100);
    for (size_t p = 0; p < ids_.size(); ++p) {
      for (float& x : views_[p]) x = (rank_ + 1.0f) * (p + 1.0f) + step;
      absl::Status submitted = sync_->Submit(ids_[p]);
      if (!submitted.ok()) return submitted;
    }
    auto verdict = sync_->Finish({.more_data = more});
    if (!verdict.ok()) return verdict;
    for (size_t p = 0; p < ids_.size(); ++p) {
      EXPECT_THAT(views_[p], Each(Sum(p, step))) << kNames[p];
    }
    return verdict;
  }

  int moves() const { return moves_; }
  void End() { sync_.reset(); }

 private:
  void Fetch() {
    views_.clear();
    for (const ParameterId id : ids_) {
      views_.push_back(*sync_->Gradient<float>(id));
    }
  }
  // The sum over the world, or over the ranks of this column of data=2,pipe=2.
  float Sum(size_t p, float step) const {
    float sum = 0;
    for (int rank = 0; rank < world_; ++rank) {
      const bool shared = p % 2 == 0;
      if (shared || rank % 2 == rank_ % 2) {
        sum += (rank + 1.0f) * (p + 1.0f) + step;
      }
    }
    return sum;
  }

  std::unique_ptr<GradientSync> sync_;
  std::vector<ParameterId> ids_;
  std::vector<absl::Span<float>> views_;
  int rank_ = 0;
  int world_ = 0;
  int moves_ = 0;
};

class RebuildTest : public JobFixture {
 protected:
  RebuildTest() {
    spec_.transport = "shm";
    spec_.buckets = {.first_bytes_max = 500, .bytes_max = 1000};
  }
  ~RebuildTest() override { sessions_.clear(); }

  Joined Join(const JoinOptions& options) override {
    return Session::Impl::Join(
        options, {.channels = MakeFakeChannels(&server_),
                  .make_transport = [this](const JobSpec&)
                      -> absl::StatusOr<std::unique_ptr<transport::Transport>> {
                    return transport::MakeInprocTransport(&hub_);
                  },
                  .clock = clock_,
                  .process = {"host", 1, "boot"},
                  .incarnation = ++incarnations_});
  }

  // Runs `body` on each rank's thread, with a Program that has begun.
  void Train(const std::function<bool(int rank)>& may_move,
             const std::function<void(int rank, Program& program)>& body) {
    std::vector<Program> programs(kWorld);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kWorld; ++rank) {
      threads.emplace_back([&, rank] {
        const absl::Status begun =
            programs[rank].Begin(*sessions_[rank], may_move(rank));
        ASSERT_TRUE(begun.ok()) << begun;
        body(rank, programs[rank]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (Program& program : programs) program.End();
  }

  // Steps until the buckets have moved; returns the last step of the previous
  // revision.
  static uint64_t TrainUntilMoved(Program& program) {
    const int moves = program.moves();
    for (uint64_t i = 0; i < kTimeout; ++i) {
      const auto verdict = program.Step();
      EXPECT_TRUE(verdict.ok()) << verdict.status();
      if (!verdict.ok() || program.moves() > moves) return verdict->step;
    }
    ADD_FAILURE() << "the buckets do not move";
    return 0;
  }

  // Steps while `more` returns true on rank 0.
  static void TrainWhile(int rank, Program& program,
                         const std::function<bool()>& more) {
    for (uint64_t i = 0; i < kTimeout; ++i) {
      const auto verdict = program.Step(rank != 0 || more());
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      if (verdict->with_more_data < kWorld) return;
    }
    ADD_FAILURE() << "what was waited for does not come";
  }
  // Whether Rebuild was refused because of this worker only, and the message
  // says what it lacks.
  static bool HoldsOnly(const std::string& worker,
                        const absl::Status& refused) {
    const std::string message(refused.message());
    return refused.code() == absl::StatusCode::kFailedPrecondition &&
           message.find("and " + worker + " did not take it over") !=
               std::string::npos &&
           message.find("OnMoved") != std::string::npos;
  }

  absl::Status Rebuild() {
    return server_.Ask([](core::RequestId request) {
      return core::CommandJob{request, {"job"}, "", JobCommand::kRebuild};
    });
  }
  JobView Describe() { return *server_.Describe("job"); }
  // The workers' revisions in the coordinator's view, once all are `revision`.
  std::vector<uint64_t> RevisionsOnceAllAre(uint64_t revision) {
    std::vector<uint64_t> revisions;
    const absl::Time deadline = clock_->Now() + absl::Seconds(20);
    do {
      revisions.clear();
      for (const WorkerView& worker : Describe().workers) {
        revisions.push_back(worker.revision.value);
      }
    } while (clock_->Now() < deadline &&
             revisions != std::vector<uint64_t>(kWorld, revision));
    return revisions;
  }

  std::shared_ptr<Clock> clock_ = std::make_shared<SystemClock>();
  std::atomic<uint64_t> incarnations_ = 0;
  CoreServer server_{clock_.get()};
  transport::InprocHub hub_;
};

bool Everybody(int) { return true; }

TEST_F(RebuildTest, AllRanksMoveAfterOneStepOnceTheOrderIsSeen) {
  JoinAll();
  std::vector<uint64_t> last(kWorld);
  Train(Everybody, [&](int rank, Program& program) {
    last[rank] = TrainUntilMoved(program);
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(program.Step().ok());
    EXPECT_EQ(program.moves(), 1);
    if (rank == 0) {
      EXPECT_THAT(RevisionsOnceAllAre(2), ElementsAre(2, 2, 2, 2));
    }
  });
  EXPECT_THAT(last, Each(last[0]));
  const JobView view = Describe();
  EXPECT_EQ(view.revision, Revision{2});
  EXPECT_EQ(view.buckets.at(0).parameters.at(0), "a") << "submitted first";
}

TEST_F(RebuildTest, OnDemandTheyMoveEachTimeSomebodyAsks) {
  spec_.buckets.rebuild = lockstep::Rebuild::kOnDemand;
  JoinAll();
  std::atomic<int> done{0};
  Train(Everybody, [&](int rank, Program& program) {
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(program.Step().ok());
    EXPECT_EQ(program.moves(), 0);
    if (rank == 0) {
      EXPECT_EQ(Describe().revision, Revision{1});
      EXPECT_EQ(Rebuild(), absl::OkStatus());
    }
    TrainUntilMoved(program);
    if (rank == 0) {
      EXPECT_THAT(RevisionsOnceAllAre(2), ElementsAre(2, 2, 2, 2));
      EXPECT_EQ(Rebuild(), absl::OkStatus()) << "the order is the same now";
    }
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(program.Step().ok());
    EXPECT_EQ(program.moves(), 1);
    ++done;
  });
  EXPECT_EQ(done, kWorld);
}

TEST_F(RebuildTest, OneRankThatCannotMoveKeepsTheBucketsOfAll) {
  JoinAll();
  Train([](int rank) { return rank != 3; },
        [&](int rank, Program& program) {
          // Until only this worker has not taken the revision over.
          absl::Status refused;
          TrainWhile(rank, program, [&] {
            refused = Rebuild();
            return !HoldsOnly("worker-3", refused);
          });
          EXPECT_EQ(program.moves(), 0);
          if (rank != 0) return;
          EXPECT_EQ(Describe().revision, Revision{2}) << "is announced";
          EXPECT_THAT(RevisionsOnceAllAre(1), ElementsAre(1, 1, 1, 1));
        });
}

TEST_F(RebuildTest, ARankThatMayNotMoveIsNotAskedInVain) {
  JoinAll();
  Train([](int) { return false; },
        [&](int, Program& program) {
          for (int i = 0; i < 100; ++i) ASSERT_TRUE(program.Step().ok());
        });
  EXPECT_EQ(Describe().revision, Revision{1}) << "nobody takes memory for it";
}

TEST_F(RebuildTest, ItSurvivesCutStreams) {
  JoinAll();
  Train(Everybody, [&](int rank, Program& program) {
    for (uint64_t i = 0; i < kTimeout && program.moves() == 0; ++i) {
      if (rank == 2 && i % 50 == 0) server_.CutStreams();
      ASSERT_TRUE(program.Step().ok());
    }
    EXPECT_EQ(program.moves(), 1);
  });
}

}  // namespace
}  // namespace lockstep::session
