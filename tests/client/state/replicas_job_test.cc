// StateReplicas in whole jobs: the real coordinator core, the in-process
// transport.

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "lockstep/state_replicas.h"
#include "tests/client/session/inproc_job_fixture.h"

namespace lockstep::session {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// "w" is whole on all ranks; "cut" in columns over the last axis of the mesh;
// ranks 0 and 1 hold the first half of "sliced", ranks 2 and 3 the other one.
struct ReplicatedRank {
  explicit ReplicatedRank(Session& session) {
    const Mesh& mesh = session.spec().mesh;
    const int last = static_cast<int>(mesh.axes.size()) - 1;
    const int64_t columns = 8 / mesh.axes[last].size;
    w.resize(300'000);  // more than one chunk
    cut.resize(static_cast<size_t>(5 * columns));
    sliced.resize(150);
    EXPECT_TRUE(
        session.RegisterState({.name = "w", .shape = {300, 1000}}, w.data())
            .ok());
    EXPECT_TRUE(session
                    .RegisterState({.name = "cut",
                                    .dtype = DType::kF64,
                                    .shape = {5, columns},
                                    .cuts = {{1, {mesh.axes[last].name}}}},
                                   cut.data())
                    .ok());
    const auto registered = session.RegisterState(
        {.name = "sliced",
         .dtype = DType::kU16,
         .shape = {300},
         .slice = StateSlice{session.rank() / 2 * 150, 150}},
        sliced.data());
    EXPECT_TRUE(registered.ok()) << registered.status();
    sliced_id = *registered;
    EXPECT_TRUE(session.RegisterScalar("step", &step).ok());
    const int part = session.rank() % mesh.axes[last].size;
    std::iota(w.begin(), w.end(), 1.0f);
    std::iota(cut.begin(), cut.end(), part * 1000.0);
    std::iota(sliced.begin(), sliced.end(),
              static_cast<uint16_t>(session.rank() / 2 * 1000));
    step = 17;
  }

  void Forget() {
    std::fill(w.begin(), w.end(), -1.0f);
    std::fill(cut.begin(), cut.end(), -1.0);
    std::fill(sliced.begin(), sliced.end(), uint16_t{9});
    step = -1;
  }
  bool operator==(const ReplicatedRank& other) const {
    return w == other.w && cut == other.cut && sliced == other.sliced &&
           step == other.step;
  }

  std::vector<float> w;
  std::vector<double> cut;
  std::vector<uint16_t> sliced;
  int64_t step = 0;
  StateId sliced_id;
};

class ReplicasJobTest : public InprocJobFixture {
 protected:
  // Calls body(session, rank's state, its replicas) on all connected ranks.
  void ForAllConnected(const std::function<void(Session&, ReplicatedRank&,
                                                StateReplicas&)>& body) {
    JoinAll();
    ForAll([&](Session& session) {
      ReplicatedRank rank(session);
      auto replicas = StateReplicas::Create(session);
      ASSERT_TRUE(replicas.ok()) << replicas.status();
      ASSERT_NO_FATAL_FAILURE(Connect(session));
      body(session, rank, **replicas);
      connected_.arrive_and_wait();
    });
  }
};

TEST_F(ReplicasJobTest, AFlippedBitIsNamedAndTheJobGoesOn) {
  ForAllConnected(
      [](Session& session, ReplicatedRank& rank, StateReplicas& replicas) {
        EXPECT_EQ(replicas.Check(), absl::OkStatus());
        const float kept = rank.w[123'456];
        if (session.rank() == 2) {
          reinterpret_cast<char*>(rank.w.data())[4 * 123'456] ^= 4;
        }
        const absl::Status differs = replicas.Check();
        EXPECT_TRUE(absl::IsDataLoss(differs)) << differs;
        EXPECT_THAT(
            std::string(differs.message()),
            AllOf(HasSubstr("tensor \"w\" of rank 2 (elements 0 to 300000 "),
                  Not(HasSubstr("cut")), Not(HasSubstr("sliced")),
                  Not(HasSubstr("step"))));
        EXPECT_EQ(session.status(), absl::OkStatus());
        rank.w[123'456] = kept;
        EXPECT_EQ(replicas.Check(), absl::OkStatus());
      });
  LeaveAll();
}

class ReplicasJobOfNewcomerTest : public ReplicasJobTest,
                                  public testing::WithParamInterface<int> {};

TEST_P(ReplicasJobOfNewcomerTest, ItsMemoryComesBackBitForBit) {
  ForAllConnected(
      [](Session& session, ReplicatedRank& rank, StateReplicas& replicas) {
        const ReplicatedRank expected(rank);
        if (session.rank() == GetParam()) rank.Forget();
        EXPECT_TRUE(absl::IsDataLoss(replicas.Check()));
        EXPECT_EQ(replicas.Recover({GetParam()}), absl::OkStatus());
        EXPECT_TRUE(rank == expected);
        EXPECT_EQ(replicas.Check(), absl::OkStatus());
        EXPECT_EQ(replicas.Recover({}), absl::OkStatus());
        EXPECT_TRUE(rank == expected);
      });
  LeaveAll();
}

INSTANTIATE_TEST_SUITE_P(Ranks, ReplicasJobOfNewcomerTest,
                         testing::Values(0, 3));

// Rank 0 sends a chunk that ranks 1 and 2 do not agree with.
TEST_F(ReplicasJobTest, AHolderThatHasOtherBytesIsReplaced) {
  spec_.mesh = {{{"data", 4}, {"model", 1}}};
  ForAllConnected(
      [](Session& session, ReplicatedRank& rank, StateReplicas& replicas) {
        const ReplicatedRank expected(rank);
        if (session.rank() == 3) rank.Forget();
        if (session.rank() == 0) rank.w[7] = 0.5f;
        EXPECT_EQ(replicas.Recover({3}), absl::OkStatus());
        if (session.rank() == 0) {
          EXPECT_EQ(rank.w[7], 0.5f);
        } else {
          EXPECT_TRUE(rank == expected);
        }
        const absl::Status differs = replicas.Check();
        EXPECT_THAT(std::string(differs.message()),
                    HasSubstr("tensor \"w\" of rank 0"));
      });
  LeaveAll();
}

TEST_F(ReplicasJobTest, StateThatNoHealthyRankHoldsIsNamed) {
  ForAllConnected(
      [](Session& session, ReplicatedRank& rank, StateReplicas& replicas) {
        const ReplicatedRank expected(rank);
        const absl::Status lost = replicas.Recover({3, 2});
        EXPECT_TRUE(absl::IsFailedPrecondition(lost)) << lost;
        EXPECT_THAT(std::string(lost.message()),
                    AllOf(HasSubstr("sliced"), Not(HasSubstr("\"w\""))));
        EXPECT_TRUE(absl::IsInvalidArgument(replicas.Recover({4})));
        EXPECT_TRUE(absl::IsInvalidArgument(replicas.Recover({1, 1})));
        EXPECT_TRUE(rank == expected);
        EXPECT_EQ(session.status(), absl::OkStatus());
      });
  LeaveAll();
}

TEST_F(ReplicasJobTest, DifferentNewcomersAreRefusedByAll) {
  ForAllConnected(
      [](Session& session, ReplicatedRank& rank, StateReplicas& replicas) {
        const ReplicatedRank expected(rank);
        EXPECT_TRUE(absl::IsInvalidArgument(
            replicas.Recover({session.rank() == 1 ? 2 : 0})));
        // One of them names a rank that does not exist.
        EXPECT_TRUE(absl::IsInvalidArgument(
            replicas.Recover({session.rank() == 1 ? 9 : 0})));
        EXPECT_TRUE(rank == expected);
        EXPECT_EQ(replicas.Recover({0}), absl::OkStatus());
      });
  LeaveAll();
}

TEST_F(ReplicasJobTest, ARankWithoutMemoryIsNamedOnAll) {
  ForAllConnected([](Session& session, ReplicatedRank& rank,
                     StateReplicas& replicas) {
    if (session.rank() == 1) {
      ASSERT_TRUE(session.SetStateMemory(rank.sliced_id, nullptr).ok());
    }
    const absl::Status expected =
        absl::InvalidArgumentError("tensor \"sliced\" of rank 1 has no memory");
    EXPECT_EQ(replicas.Check(), expected);
    EXPECT_EQ(replicas.Recover({0}), expected);
    EXPECT_EQ(replicas.Recover({1}), expected);
    ASSERT_TRUE(
        session.SetStateMemory(rank.sliced_id, rank.sliced.data()).ok());
    EXPECT_EQ(replicas.Recover({1}), absl::OkStatus());
  });
  LeaveAll();
}

class ReplicasJobEndTest : public ReplicasJobTest,
                           public testing::WithParamInterface<bool> {};

TEST_P(ReplicasJobEndTest, TheEndOfTheEpochEndsTheCalls) {
  ForAllConnected(
      [this](Session& session, ReplicatedRank&, StateReplicas& replicas) {
        EXPECT_EQ(replicas.Check(), absl::OkStatus());
        connected_.arrive_and_wait();
        // Rank 1 does not call again.
        if (session.rank() == 1) {
          session.ReportFailure("test", absl::InternalError("out of luck"));
          return;
        }
        const bool recovers = GetParam();
        const absl::Status ended =
            recovers ? replicas.Recover({0}) : replicas.Check();
        EXPECT_FALSE(ended.ok());
        EXPECT_EQ(ended, session.status());
        EXPECT_THAT(std::string(ended.message()), HasSubstr("out of luck"));
      });
}

INSTANTIATE_TEST_SUITE_P(Calls, ReplicasJobEndTest, testing::Bool());

TEST_F(ReplicasJobTest, CallsAreRefusedBeforeConnectAndAfterLeave) {
  JoinAll();
  ForAll([this](Session& session) {
    ReplicatedRank rank(session);
    auto replicas = StateReplicas::Create(session);
    ASSERT_TRUE(replicas.ok()) << replicas.status();
    EXPECT_TRUE(absl::IsFailedPrecondition((*replicas)->Check()));
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    EXPECT_EQ((*replicas)->Check(), absl::OkStatus());
    connected_.arrive_and_wait();
    EXPECT_EQ(session.Leave(), absl::OkStatus());
    EXPECT_TRUE(absl::IsFailedPrecondition((*replicas)->Check()));
  });
}

TEST_F(ReplicasJobTest, CreateAfterConnectIsRefused) {
  JoinAll();
  ForAll([this](Session& session) {
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    EXPECT_TRUE(
        absl::IsFailedPrecondition(StateReplicas::Create(session).status()));
    connected_.arrive_and_wait();
  });
  LeaveAll();
}

}  // namespace
}  // namespace lockstep::session
