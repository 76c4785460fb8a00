// AsyncCheckpointer in whole jobs: the real coordinator core, the in-process
// transport and files on disk.

#include "tests/client/state/checkpointer_job.h"

#include <atomic>
#include <cstdint>
#include <string>

namespace lockstep::session {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using CheckpointerJobTest = CheckpointerJobFixture;

TEST_F(CheckpointerJobTest, LeavingWaitsForTheSaveInProgress) {
  JoinAll();
  ForAllWithCheckpointer(
      [](Session& session, AsyncCheckpointer& checkpointer, TrainedRank& rank) {
        rank.Set(10);
        ASSERT_EQ(checkpointer.Save({.step = 10}), absl::OkStatus());
        EXPECT_EQ(session.Leave(), absl::OkStatus());
        ASSERT_TRUE(checkpointer.newest().has_value());
        EXPECT_EQ(checkpointer.newest()->step, 10);
        EXPECT_EQ(checkpointer.Wait(), absl::OkStatus());
      });
}

TEST_F(CheckpointerJobTest, ALaterJobGoesOnFromTheNewestCheckpoint) {
  JoinAll();
  ForAllWithCheckpointer(
      [](Session&, AsyncCheckpointer& checkpointer, TrainedRank& rank) {
        EXPECT_EQ(checkpointer.newest(), std::nullopt);
        EXPECT_TRUE(absl::IsNotFound(checkpointer.Load().status()));
        for (const int64_t step : {10, 20, 30}) {
          rank.Set(step);
          ASSERT_EQ(checkpointer.Save({.step = step, .learning_rate = 0.5}),
                    absl::OkStatus());
          rank.Set(step + 1);
        }
        EXPECT_EQ(checkpointer.Wait(), absl::OkStatus());
        ASSERT_TRUE(checkpointer.newest().has_value());
        EXPECT_EQ(checkpointer.newest()->step, 30);
        EXPECT_EQ(checkpointer.newest()->attempt, 3);
        const auto training = checkpointer.Load({.step = 20});
        ASSERT_TRUE(training.ok()) << training.status();
        EXPECT_EQ(training->step, 20);
        EXPECT_EQ(training->learning_rate, 0.5);
        rank.ExpectAt(20);
      });

  JoinLaterJob({{{"data", 4}, {"pipe", 1}}});
  ForAllWithCheckpointer(
      [](Session&, AsyncCheckpointer& checkpointer, TrainedRank& rank) {
        const auto training = checkpointer.Load();
        ASSERT_TRUE(training.ok()) << training.status();
        EXPECT_EQ(training->step, 30);
        rank.ExpectAt(30);
        rank.Set(40);
        EXPECT_EQ(checkpointer.Save({.step = 40}), absl::OkStatus());
        EXPECT_EQ(checkpointer.Wait(), absl::OkStatus());
        EXPECT_EQ(checkpointer.newest()->attempt, 4);
      });
  LeaveAll();
}

TEST_F(CheckpointerJobTest, AWorkersDeathEndsTheWaitOfTheOthers) {
  JoinAll();
  ForAllWithCheckpointer([this](Session& session,
                                AsyncCheckpointer& checkpointer,
                                TrainedRank& rank) {
    rank.Set(10);
    ASSERT_EQ(checkpointer.Save({.step = 10}), absl::OkStatus());
    ASSERT_EQ(checkpointer.Wait(), absl::OkStatus());
    connected_.arrive_and_wait();
    // Rank 1 never saves.
    if (session.rank() == 1) {
      session.ReportFailure("test", absl::InternalError("out of luck"));
      return;
    }
    rank.Set(20);
    absl::Status status = checkpointer.Save({.step = 20});
    status.Update(checkpointer.Wait());
    EXPECT_EQ(status, session.status());
    EXPECT_FALSE(status.ok());
    // The one before is still there.
    EXPECT_EQ(checkpointer.newest()->step, 10);
    EXPECT_TRUE(checkpointer.Load().ok());
    rank.ExpectAt(10);
  });
}

TEST_F(CheckpointerJobTest,
       ASaveThatARankCannotWriteFailsOnAllAndTrainingGoesOn) {
  JoinAll();
  ForAllWithCheckpointer([this](Session& session,
                                AsyncCheckpointer& checkpointer,
                                TrainedRank& rank) {
    rank.Set(10);
    // A file where the folder of the first attempt should be.
    if (session.rank() == 0) {
      const std::string name = "/checkpoints/step-10-epoch-" +
                               std::to_string(session.epoch()) + "-attempt-1";
      ASSERT_TRUE(ReplaceFile(&files_, directory_ + name, "no folder").ok());
    }
    connected_.arrive_and_wait();
    ASSERT_EQ(checkpointer.Save({.step = 10}), absl::OkStatus());
    const absl::Status failed = checkpointer.Wait();
    EXPECT_FALSE(failed.ok());
    EXPECT_THAT(std::string(failed.message()),
                AllOf(HasSubstr("step 10"), HasSubstr("rank 0: "),
                      HasSubstr("rank 3: ")));
    EXPECT_EQ(session.status(), absl::OkStatus());
    ASSERT_EQ(checkpointer.Save({.step = 11}), absl::OkStatus());
    EXPECT_EQ(checkpointer.Wait(), absl::OkStatus());
    EXPECT_EQ(checkpointer.newest()->step, 11);
  });
  LeaveAll();
}

TEST_F(CheckpointerJobTest, ASessionHasOneCheckpointerOnceItIsConnected) {
  JoinAll();
  ForAll([this](Session& session) {
    TrainedRank rank(session);
    const CheckpointerOptions options{.directory = directory_};
    EXPECT_TRUE(absl::IsFailedPrecondition(
        AsyncCheckpointer::Create(session, options).status()));
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    auto made = AsyncCheckpointer::Create(session, options);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_TRUE(absl::IsFailedPrecondition(
        AsyncCheckpointer::Create(session, options).status()));
    made->reset();
    EXPECT_TRUE(absl::IsFailedPrecondition(
        AsyncCheckpointer::Create(session, options).status()))
        << "it had one";
    connected_.arrive_and_wait();
  });
  LeaveAll();
}

// First the options of rank 2 are wrong, then rank 0 cannot make a directory
// below a file; then all of them can use one.
TEST_F(CheckpointerJobTest, ACreateThatFailedIsFollowedByOneThatWorks) {
  const std::string file = directory_ + ".file";
  ASSERT_EQ(ReplaceFile(&files_, file, "no folder"), absl::OkStatus());
  JoinAll();
  ForAll([&](Session& session) {
    TrainedRank rank(session);
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    const bool wrong = session.rank() == 2;
    const absl::Status refused =
        AsyncCheckpointer::Create(
            session, {.directory = directory_, .keep_last = wrong ? 0 : 1})
            .status();
    EXPECT_EQ(refused.code(), wrong ? absl::StatusCode::kInvalidArgument
                                    : absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("keep_last 0"));
    for (int i = 0; i < 2; ++i) {
      const absl::Status failed =
          AsyncCheckpointer::Create(session, {.directory = file}).status();
      EXPECT_TRUE(absl::IsFailedPrecondition(failed)) << failed;
      EXPECT_THAT(
          std::string(failed.message()),
          AllOf(HasSubstr("rank 0: "), testing::Not(HasSubstr("rank 1"))));
    }
    auto made = AsyncCheckpointer::Create(session, {.directory = directory_});
    ASSERT_TRUE(made.ok()) << made.status();
    rank.Set(10);
    EXPECT_EQ((*made)->Save({.step = 10}), absl::OkStatus());
    EXPECT_EQ((*made)->Wait(), absl::OkStatus());
    connected_.arrive_and_wait();
  });
  LeaveAll();
  std::filesystem::remove(file);
}

// Makes no more device contexts once `fails` is set.
class FailingDevices final : public transport::Transport {
 public:
  FailingDevices(std::unique_ptr<transport::Transport> inner,
                 const std::atomic<bool>* fails)
      : inner_(std::move(inner)), fails_(fails) {}
  std::string_view name() const override { return inner_->name(); }
  TransportFacts facts() const override { return inner_->facts(); }
  absl::StatusOr<std::unique_ptr<transport::PendingGroup>> Prepare(
      const transport::GroupSpec& group) override {
    return inner_->Prepare(group);
  }
  absl::StatusOr<std::unique_ptr<transport::DeviceContext>> MakeDeviceContext()
      override {
    if (*fails_) return absl::ResourceExhaustedError("no device memory");
    return inner_->MakeDeviceContext();
  }

 private:
  const std::unique_ptr<transport::Transport> inner_;
  const std::atomic<bool>* const fails_;
};

class OneFailingDeviceTest : public CheckpointerJobFixture {
 protected:
  absl::StatusOr<std::unique_ptr<transport::Transport>> MakeTransport()
      override {
    auto inner = CheckpointerJobFixture::MakeTransport();
    if (!inner.ok() || made_++ > 0) return inner;
    return std::make_unique<FailingDevices>(*std::move(inner), &fails_);
  }

  std::atomic<int> made_ = 0;
  std::atomic<bool> fails_ = false;
};

// The other ranks would wait for it until the progress timeout.
TEST_F(OneFailingDeviceTest, IsTheErrorOfCreateOnAllRanks) {
  JoinAll();
  ForAll([&](Session& session) {
    TrainedRank rank(session);
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    fails_ = true;
    connected_.arrive_and_wait();
    const absl::Status failed =
        AsyncCheckpointer::Create(session, {.directory = directory_}).status();
    EXPECT_TRUE(absl::IsResourceExhausted(failed) ||
                absl::IsFailedPrecondition(failed))
        << failed;
    EXPECT_THAT(std::string(failed.message()), HasSubstr("no device memory"));
    connected_.arrive_and_wait();
    fails_ = false;
    auto made = AsyncCheckpointer::Create(session, {.directory = directory_});
    EXPECT_TRUE(made.ok()) << made.status();
    connected_.arrive_and_wait();
  });
  LeaveAll();
}

}  // namespace
}  // namespace lockstep::session
