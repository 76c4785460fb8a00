// Groups of collectives over named axes in whole jobs: the real coordinator
// core, the in-process transport.

#include <atomic>
#include <functional>
#include <future>
#include <mutex>

#include "lockstep/host_calls.h"
#include "tests/client/session/inproc_job_fixture.h"

namespace lockstep::session {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Kind = AxisCollectiveKind;

// Rank r is data r / 2, pipe r % 2.
class GroupJobTest : public InprocJobFixture {};

absl::StatusOr<double> SumOver(const AxisGroup& group, double own) {
  const auto sums = AllReduceScalars(group, {own});
  if (!sums.ok()) return sums.status();
  return (*sums)[0];
}

TEST_F(GroupJobTest, GroupsAreDeclaredConnectedAndUsedWithoutGradients) {
  JoinAll();
  ForAll([](Session& session) {
    const auto world = session.Group({"data", "pipe"});
    const auto data = session.Group({"data"});
    const auto halves = session.Group({"pipe", "data"}, {{3, 0}, {1, 2}});
    ASSERT_TRUE(world.ok() && data.ok() && halves.ok());
    EXPECT_EQ(data->size(), 2);
    EXPECT_EQ(data->index(), session.rank() / 2);
    EXPECT_EQ(SumOver(*data, 1).status().code(),
              absl::StatusCode::kFailedPrecondition);
    ASSERT_TRUE(session.Connect().ok()) << session.status();
    EXPECT_EQ(*SumOver(*world, session.rank()), 6);
    EXPECT_EQ(*SumOver(*data, session.rank()), session.rank() % 2 == 0 ? 2 : 4);
    // Members by pipe, then data: ranks 0, 2, 1, 3.
    const bool is_outer = session.rank() == 3 || session.rank() == 0;
    EXPECT_EQ(*SumOver(*halves, session.rank()), 3);
    EXPECT_EQ(halves->index(),
              session.rank() == 3 || session.rank() == 2 ? 0 : 1);
    const auto ranks =
        AllGatherObjects(*halves, std::to_string(session.rank()));
    ASSERT_TRUE(ranks.ok()) << ranks.status();
    if (is_outer) {
      EXPECT_THAT(*ranks, ElementsAre("3", "0"));
    } else {
      EXPECT_THAT(*ranks, ElementsAre("2", "1"));
    }
  });
  LeaveAll();
  EXPECT_EQ(server_.Describe("job")->state, JobState::kCompleted);
}

TEST_F(GroupJobTest, OneDeclarationIsOneGroupAndLateOnesAreRefused) {
  JoinAll();
  ForAll([this](Session& session) {
    const auto group = session.Group({"data"});
    EXPECT_EQ(&session.Group({"data"})->impl(), &group->impl());
    EXPECT_NE(&session.Group({"data"}, {{0, 1}})->impl(), &group->impl());
    EXPECT_EQ(session.Group({"batch"}).status().message(),
              "the mesh data=2,pipe=2 has no axis batch");
    EXPECT_THAT(std::string(session.Group({"data"}, {{0}}).status().message()),
                HasSubstr("the index groups lack 1"));
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    EXPECT_EQ(&session.Group({"data"})->impl(), &group->impl());
    EXPECT_EQ(session.Group({"pipe"}).status().message(),
              "the group over pipe is declared after GradientSync::Seal or "
              "Session::Connect: declare all groups before");
    EXPECT_THAT(std::string(session.Connect().message()),
                HasSubstr("agree on one plan in an epoch"));
    EXPECT_TRUE(Barrier(*group).ok());
  });
  LeaveAll();
}

TEST_F(GroupJobTest, AGroupThatOneMemberDoesNotDeclareIsOneErrorToAll) {
  JoinAll();
  ForAll([](Session& session) {
    ASSERT_TRUE(session.Group({"data"}).ok());
    if (session.rank() != 2) {
      ASSERT_TRUE(session.Group({"pipe"}).ok());
    }
    const absl::Status refused = session.Connect();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("a group over pipe is declared by ranks 0-1, 3 and "
                          "not by rank 2: all its members, ranks 2-3, must "
                          "declare it"));
  });
}

TEST_F(GroupJobTest, TheEndOfTheEpochEndsEveryCallWithItsCause) {
  JoinAll();
  ForAll([this](Session& session) {
    const auto world = session.Group({"data", "pipe"});
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    const auto psum =
        *world->Prepare({.kind = Kind::kPsum}, {{DType::kF32, {1}}});
    float x = 1;
    absl::StatusOr<PendingCollective> pending =
        absl::FailedPreconditionError("rank 3 starts none");
    if (session.rank() == 3) {
      session.ReportFailure("Train", absl::InternalError("loss is NaN"));
    } else {
      pending = psum.Start({&x}, {&x});
      // It may have ended before the call.
      if (pending.ok()) pending = pending->Wait();
    }
    const auto is_cause =
        AllOf(HasSubstr("worker-3"), HasSubstr("loss is NaN"));
    if (session.rank() != 3) {
      EXPECT_THAT(std::string(pending.status().message()), is_cause);
    }
    EXPECT_THAT(std::string(psum.Start({&x}, {&x}).status().message()),
                is_cause);
    HostStream stream;
    EXPECT_THAT(std::string(psum.Run({&x}, {&x}, stream).message()), is_cause);
    EXPECT_THAT(std::string(Barrier(*world).message()), is_cause);
  });
}

TEST_F(GroupJobTest, DifferentCallsOnACheckedGroupEndTheEpochWithAllOfThem) {
  spec_.checked = true;
  JoinAll();
  ForAll([this](Session& session) {
    const auto world = session.Group({"data", "pipe"});
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    const bool differs = session.rank() == 1;
    const auto call = *world->Prepare(
        {.kind = differs ? Kind::kPmax : Kind::kPsum}, {{DType::kF32, {2}}});
    float x[2] = {};
    const auto pending = call.Start({x}, {x});
    const absl::Status error =
        pending.ok() ? pending->Wait() : pending.status();
    EXPECT_THAT(std::string(error.message()),
                AllOf(HasSubstr("ranks 0, 2-3: psum over data,pipe of f32[2]"),
                      HasSubstr("rank 1: pmax over data,pipe of f32[2]")));
    EXPECT_EQ(session.status().message(), error.message());
  });
}

TEST_F(GroupJobTest, HostCallsOfACheckedGroupAreComparedToo) {
  spec_.checked = true;
  JoinAll();
  ForAll([this](Session& session) {
    const auto pipe = session.Group({"pipe"});
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    const absl::Status error = session.rank() == 3
                                   ? Barrier(*pipe)
                                   : AllReduceScalars(*pipe, {1}).status();
    // Ranks 0 and 1 may be done before the epoch ends.
    if (session.rank() < 2) return;
    EXPECT_THAT(std::string(error.message()),
                AllOf(HasSubstr("rank 2: AllReduceScalars of 1 values, sum"),
                      HasSubstr("rank 3: Barrier")));
  });
}

TEST_F(GroupJobTest, DifferentCallsAreNoFaultOfTheNetwork) {
  JoinAll();
  ForAll([this](Session& session) {
    const auto pipe = session.Group({"pipe"});
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    if (session.rank() < 2) return;
    const int64_t count = session.rank();
    const auto psum =
        *pipe->Prepare({.kind = Kind::kPsum}, {{DType::kF32, {count}}});
    float x[3] = {};
    const absl::Status error = psum.Start({x}, {x})->Wait();
    EXPECT_THAT(
        std::string(error.message()),
        AllOf(HasSubstr("the ranks of a group call different operations"),
              HasSubstr("in psum over pipe of rank"),
              HasSubstr("checked: true"),
              testing::Not(HasSubstr("cannot reach"))));
  });
}

TEST_F(GroupJobTest, MessagesHaveTheRanksOfTheJob) {
  JoinAll();
  ForAll([this](Session& session) {
    const auto pipe = session.Group({"pipe"});
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    float w = session.rank() == 3 ? 1.0f : 0.0f;
    const absl::Status differs =
        CheckParametersEqual(*pipe, {{"w", {DType::kF32, {}}, &w}});
    if (session.rank() < 2) {
      EXPECT_TRUE(differs.ok()) << differs;
    } else {
      EXPECT_THAT(std::string(differs.message()),
                  AllOf(HasSubstr("rank 2: "), HasSubstr("rank 3: ")));
    }
  });
  LeaveAll();
}

// The others wait in the call.
TEST_F(GroupJobTest, OffsetsThatOnlyOneRankHasWrongEndTheEpochWithItsName) {
  JoinAll();
  ForAll([this](Session& session) {
    const auto pipe = session.Group({"pipe"});
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    if (session.rank() < 2) return;
    const TensorType rows{DType::kF32, {2}}, vector{DType::kI32, {2}};
    const auto exchange =
        *pipe->Prepare({.kind = Kind::kRaggedAllToAll},
                       {rows, rows, vector, vector, vector, vector});
    const float in[2] = {};
    float out[2] = {};
    const int ones[2] = {1, 1};
    const int from[2] = {session.rank() == 3 ? 9 : 0, 0};
    const int to[2] = {session.rank() - 2, session.rank() - 2};
    const auto pending = exchange.Start({in, out, from, ones, to, ones}, {out});
    const absl::Status error =
        pending.ok() ? pending->Wait() : pending.status();
    EXPECT_THAT(std::string(error.message()),
                AllOf(HasSubstr("worker-3"),
                      HasSubstr("slice 0 has 1 rows at 9 of the operand")));
  });
}

TEST_F(GroupJobTest, AHandleThatOutlivesItsSessionIsAnError) {
  JoinAll();
  std::vector<PendingCollective> handles;
  std::mutex mutex;
  ForAll([&](Session& session) {
    const auto world = session.Group({"data", "pipe"});
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    static const float in = 0;
    static float out[4] = {};
    const auto gather =
        *world->Prepare({.kind = Kind::kAllGather}, {{DType::kF32, {}}});
    if (session.rank() == 0) {  // the others never call
      std::lock_guard lock(mutex);
      handles.push_back(*gather.Start({&in}, {out}));
    }
  });
  sessions_.clear();
  ASSERT_EQ(handles.size(), 1u);
  const absl::Status late = handles[0].Wait();
  EXPECT_EQ(late.code(), absl::StatusCode::kFailedPrecondition) << late;
  EXPECT_EQ(late.message(),
            "all_gather over data,pipe: this worker has left the job");
}

TEST_F(GroupJobTest, ACallThatIsStillBlockedEndsWhenItsPeersLeave) {
  JoinAll();
  std::promise<void> blocked;
  ForAll([&](Session& session) {
    const auto data = session.Group({"data"});
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    if (session.rank() == 2) {
      blocked.get_future().wait();
      EXPECT_TRUE(session.Leave().ok());
      return;
    }
    if (session.rank() != 0) return;
    const auto gather =
        *data->Prepare({.kind = Kind::kAllGather}, {{DType::kI32, {}}});
    const int own = 7;
    int all[2] = {};
    const auto pending = gather.Start({&own}, {all});
    ASSERT_TRUE(pending.ok());
    blocked.set_value();
    const absl::Status error = pending->Wait();
    EXPECT_FALSE(error.ok());
    EXPECT_THAT(std::string(error.message()), HasSubstr("worker-2"));
  });
}

TEST_F(GroupJobTest, CallsAfterLeavingAreRefused) {
  JoinAll();
  ForAll([this](Session& session) {
    const auto data = session.Group({"data"});
    ASSERT_NO_FATAL_FAILURE(Connect(session));
    EXPECT_TRUE(Barrier(*data).ok());
    EXPECT_TRUE(session.Leave().ok());
    EXPECT_EQ(Barrier(*data).message(),
              "Barrier: this worker has left the job");
  });
}

}  // namespace
}  // namespace lockstep::session
