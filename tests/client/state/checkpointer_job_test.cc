// AsyncCheckpointer in whole jobs: the real coordinator core, the in-process
// transport and files on disk.

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "lockstep/checkpointer.h"
#include "tests/client/session/inproc_job_fixture.h"

namespace lockstep::session {
namespace {

using testing::HasSubstr;

// "w" f32[5,4] is cut over pipe, and its moments are sliced over data too.
struct TrainedRank {
  explicit TrainedRank(Session& session) {
    const std::vector<int> at =
        session.spec().mesh.CoordinatesOf(session.rank());
    columns = 4 / session.spec().mesh.axes[1].size;
    first_column = at[1] * columns;
    w.resize(static_cast<size_t>(5 * columns));
    first_moment = at[0] * 5 * columns / session.spec().mesh.axes[0].size;
    moments.resize(w.size() /
                   static_cast<size_t>(session.spec().mesh.axes[0].size));
    const StateSpec weight = {
        .name = "w", .shape = {5, columns}, .cuts = {{1, {"pipe"}}}};
    StateSpec sliced = weight;
    sliced.name = "w.moments";
    sliced.dtype = DType::kF64;
    sliced.slice =
        StateSlice{first_moment, static_cast<int64_t>(moments.size())};
    EXPECT_TRUE(session.RegisterState(weight, w.data()).ok());
    EXPECT_TRUE(session.RegisterState(sliced, moments.data()).ok());
    EXPECT_TRUE(session.RegisterScalar("step", &step).ok());
  }

  // What an element of the block is in the whole tensor.
  int64_t Global(int64_t element) const {
    return element / columns * 4 + first_column + element % columns;
  }
  void Set(int64_t to) {
    step = to;
    for (size_t i = 0; i < w.size(); ++i) {
      w[i] = static_cast<float>(to * 100 + Global(static_cast<int64_t>(i)));
    }
    for (size_t i = 0; i < moments.size(); ++i) {
      moments[i] = static_cast<double>(
          to * 1000 + Global(first_moment + static_cast<int64_t>(i)));
    }
  }
  void ExpectAt(int64_t at) const {
    TrainedRank expected(*this);
    expected.Set(at);
    EXPECT_EQ(step, at);
    EXPECT_EQ(w, expected.w);
    EXPECT_EQ(moments, expected.moments);
  }

  int64_t columns = 0, first_column = 0, first_moment = 0;
  std::vector<float> w;
  std::vector<double> moments;
  int64_t step = 0;
};

class CheckpointerJobTest : public InprocJobFixture {
 protected:
  CheckpointerJobTest()
      : directory_(testing::TempDir() + "checkpointer_job_test." +
                   std::to_string(getpid())) {
    std::filesystem::remove_all(directory_);
  }
  ~CheckpointerJobTest() override {
    sessions_.clear();
    std::filesystem::remove_all(directory_);
  }

  PosixFileSystem files_;
  // A job after the first one, of another name and mesh.
  void JoinLaterJob(const Mesh& mesh) {
    std::vector<std::future<Joined>> joining;
    for (int i = 0; i < kWorld; ++i) {
      JoinOptions options = OptionsOf(i);
      options.job = options.spec->name = "later";
      options.spec->mesh = mesh;
      joining.push_back(JoinAsync(options));
    }
    for (auto& each : joining) {
      Joined session = each.get();
      ASSERT_TRUE(session.ok()) << session.status();
      sessions_.push_back(*std::move(session));
    }
  }

  const std::string directory_;
};

TEST_F(CheckpointerJobTest, LeavingWaitsForTheSaveInProgress) {
  JoinAll();
  ForAll([this](Session& session) {
    TrainedRank rank(session);
    const CheckpointerOptions options{.directory = directory_};
    EXPECT_TRUE(absl::IsFailedPrecondition(
        AsyncCheckpointer::Create(session, options).status()));
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    auto made = AsyncCheckpointer::Create(session, options);
    ASSERT_TRUE(made.ok()) << made.status();
    rank.Set(10);
    ASSERT_EQ((*made)->Save({.step = 10}), absl::OkStatus());
    EXPECT_EQ(session.Leave(), absl::OkStatus());
    ASSERT_TRUE((*made)->newest().has_value());
    EXPECT_EQ((*made)->newest()->step, 10);
    EXPECT_EQ((*made)->Wait(), absl::OkStatus());
  });
}

TEST_F(CheckpointerJobTest, ALaterJobGoesOnFromTheNewestCheckpoint) {
  JoinAll();
  ForAll([this](Session& session) {
    TrainedRank rank(session);
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    auto made = AsyncCheckpointer::Create(session, {.directory = directory_});
    ASSERT_TRUE(made.ok()) << made.status();
    AsyncCheckpointer& checkpointer = **made;
    EXPECT_EQ(checkpointer.newest(), std::nullopt);
    EXPECT_TRUE(absl::IsNotFound(checkpointer.Load().status()));
    const auto second =
        AsyncCheckpointer::Create(session, {.directory = directory_});
    EXPECT_TRUE(absl::IsFailedPrecondition(second.status()));
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
    connected_.arrive_and_wait();
  });
  LeaveAll();
  sessions_.clear();

  JoinLaterJob({{{"data", 4}, {"pipe", 1}}});
  ForAll([this](Session& session) {
    TrainedRank rank(session);
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    auto made = AsyncCheckpointer::Create(session, {.directory = directory_});
    ASSERT_TRUE(made.ok()) << made.status();
    const auto training = (*made)->Load();
    ASSERT_TRUE(training.ok()) << training.status();
    EXPECT_EQ(training->step, 30);
    rank.ExpectAt(30);
    rank.Set(40);
    EXPECT_EQ((*made)->Save({.step = 40}), absl::OkStatus());
    EXPECT_EQ((*made)->Wait(), absl::OkStatus());
    EXPECT_EQ((*made)->newest()->attempt, 4);
    connected_.arrive_and_wait();
  });
  LeaveAll();
}

TEST_F(CheckpointerJobTest, AWorkersDeathEndsTheWaitOfTheOthers) {
  JoinAll();
  ForAll([this](Session& session) {
    TrainedRank rank(session);
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    auto made = AsyncCheckpointer::Create(session, {.directory = directory_});
    ASSERT_TRUE(made.ok()) << made.status();
    rank.Set(10);
    ASSERT_EQ((*made)->Save({.step = 10}), absl::OkStatus());
    ASSERT_EQ((*made)->Wait(), absl::OkStatus());
    connected_.arrive_and_wait();
    // Rank 1 never saves.
    if (session.rank() == 1) {
      session.ReportFailure("test", absl::InternalError("out of luck"));
      return;
    }
    rank.Set(20);
    absl::Status status = (*made)->Save({.step = 20});
    status.Update((*made)->Wait());
    EXPECT_EQ(status, session.status());
    EXPECT_FALSE(status.ok());
    // The one before is still there.
    EXPECT_EQ((*made)->newest()->step, 10);
    EXPECT_TRUE((*made)->Load().ok());
    rank.ExpectAt(10);
  });
}

TEST_F(CheckpointerJobTest,
       ASaveThatARankCannotWriteFailsOnAllAndTrainingGoesOn) {
  JoinAll();
  ForAll([this](Session& session) {
    TrainedRank rank(session);
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    auto made = AsyncCheckpointer::Create(session, {.directory = directory_});
    ASSERT_TRUE(made.ok()) << made.status();
    rank.Set(10);
    // A file where the folder of the first attempt should be.
    if (session.rank() == 0) {
      const std::string name = "/checkpoints/step-10-epoch-" +
                               std::to_string(session.epoch()) + "-attempt-1";
      ASSERT_TRUE(ReplaceFile(&files_, directory_ + name, "no folder").ok());
    }
    connected_.arrive_and_wait();
    ASSERT_EQ((*made)->Save({.step = 10}), absl::OkStatus());
    const absl::Status failed = (*made)->Wait();
    EXPECT_FALSE(failed.ok());
    EXPECT_THAT(std::string(failed.message()),
                testing::AllOf(HasSubstr("step 10"), HasSubstr("rank 0: "),
                               HasSubstr("rank 3: ")));
    EXPECT_EQ(session.status(), absl::OkStatus());
    ASSERT_EQ((*made)->Save({.step = 11}), absl::OkStatus());
    EXPECT_EQ((*made)->Wait(), absl::OkStatus());
    EXPECT_EQ((*made)->newest()->step, 11);
    connected_.arrive_and_wait();
  });
  LeaveAll();
}

TEST_F(CheckpointerJobTest, OptionsThatOneRankRefusesAreRefusedByAll) {
  JoinAll();
  ForAll([this](Session& session) {
    TrainedRank rank(session);
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    const bool wrong = session.rank() == 2;
    const auto made = AsyncCheckpointer::Create(
        session, {.directory = directory_, .keep_last = wrong ? 0 : 1});
    EXPECT_EQ(made.status().code(),
              wrong ? absl::StatusCode::kInvalidArgument
                    : absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(made.status().message()), HasSubstr("keep_last 0"));
    connected_.arrive_and_wait();
  });
  LeaveAll();
}

}  // namespace
}  // namespace lockstep::session
