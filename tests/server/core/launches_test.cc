// Launches of one job, and the replies to their launchers.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/asking.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class LaunchesTest : public testing::Test {
 protected:
  EffectList Join(uint64_t session, int i, const protocol::Launch& launch,
                  uint64_t incarnation = 0) {
    protocol::Hello hello = fixture_.HelloOf(i);
    hello.launch = launch;
    if (incarnation != 0) hello.incarnation = incarnation;
    hello.process.pid = static_cast<int>(100 * session) + i;
    return fixture_.Hello(session, hello);
  }

  CoordinatorFixture fixture_{SpecOf(4)};
  const protocol::Launch a_{"host-7-a"};
  const protocol::Launch b_{"host-8-b"};
};

TEST_F(LaunchesTest, TwoDoNotShareAJob) {
  EXPECT_THAT(Join(1, 1, a_), Includes(Sends(1, Welcome(1))));
  EXPECT_THAT(
      Join(12, 2, b_),
      Refuses(12, StatusCode::kAlreadyExists,
              StartsWith("job digits is that of another launch: w-1 (host a, "
                         "pid 101) comes from host-7-a, w-2 from host-8-b")));
  EXPECT_THAT(Join(2, 2, a_), Includes(Sends(2, Welcome(1))));
}

TEST_F(LaunchesTest, EachNodeHasOne) {
  const protocol::Launch first{"host-7-a", 2, 0};
  const protocol::Launch second{"else-8-b", 2, 1};
  const protocol::Launch intruder{"else-9-c", 2, 1};
  Join(1, 1, first);
  EXPECT_THAT(Join(3, 3, second), Includes(Sends(3, Welcome(1))));
  EXPECT_THAT(
      Join(14, 4, intruder),
      Refuses(14, StatusCode::kAlreadyExists,
              HasSubstr("w-3 (host a, pid 303) comes from else-8-b (node 1 "
                        "of 2), w-4 from else-9-c (node 1 of 2)")));
  EXPECT_THAT(Join(15, 4, b_), Refuses(15, StatusCode::kAlreadyExists));
  EXPECT_THAT(Join(4, 4, second), Includes(Sends(4, Welcome(1))));
  EXPECT_THAT(Join(2, 2, first), Includes(Sends(2, Welcome(1))));
  EXPECT_EQ(fixture_.epoch(), EpochId{1});
}

TEST_F(LaunchesTest, WorkersThatNoLauncherStartedAreNotAsked) {
  Join(1, 1, a_);
  EXPECT_THAT(fixture_.Hello(2), Includes(Sends(2, Welcome(1))));
  EXPECT_THAT(Join(3, 3, a_), Includes(Sends(3, Welcome(1))));
}

TEST_F(LaunchesTest, OneThatHasGoneLeavesItsPlace) {
  Join(1, 1, a_);
  Join(2, 2, a_);
  fixture_.Closes(1);
  EXPECT_THAT(Join(11, 1, b_, /*incarnation=*/4711),
              Refuses(11, StatusCode::kAlreadyExists))
      << "its other worker lives";
  fixture_.Closes(2);
  EXPECT_THAT(Join(12, 1, b_, /*incarnation=*/4711),
              Includes(Sends(12, Welcome(2))));
  EXPECT_THAT(Join(13, 3, b_), Includes(Sends(13, Welcome(1))));
}

// --- Replies to a launcher --------------------------------------------------

class RefusedProcessTest : public LaunchesTest {
 protected:
  static protocol::ProcessInfo Newcomer() {
    return {.host = "a", .pid = 900, .boot_id = "boot", .start_time = 77};
  }
  EffectList HelloOfNewcomer(protocol::Hello hello) {
    hello.incarnation = 4711;
    hello.process = Newcomer();
    return fixture_.Hello(20, hello);
  }
  EffectList Report(const protocol::ProcessInfo& process) {
    return fixture_.Step(ReportEvidence{
        {9}, fixture_.job(), "", {.subject = W(1), .process = process}});
  }
};

TEST_F(RefusedProcessTest, IsReportedAsOne) {
  Join(1, 1, a_);
  ASSERT_THAT(HelloOfNewcomer(fixture_.HelloOf(1)),
              Refuses(20, StatusCode::kAlreadyExists,
                      StartsWith("the name w-1 is held")));
  EXPECT_THAT(
      Report(Newcomer()),
      EffectsAre(Answers(
          9, StatusCode::kFailedPrecondition,
          StartsWith(
              "w-1 was refused: ALREADY_EXISTS: the name w-1 is held"))));
  protocol::ProcessInfo other = Newcomer();
  other.start_time = 78;
  EXPECT_THAT(Report(other), EffectsAre(Answers(9, StatusCode::kOk)));
}

TEST_F(RefusedProcessTest, ForAnotherSpec) {
  Join(1, 1, a_);
  protocol::Hello hello = fixture_.HelloOf(2);
  hello.spec->seed = 4711;
  ASSERT_THAT(HelloOfNewcomer(hello),
              Refuses(20, StatusCode::kInvalidArgument));
  EXPECT_THAT(Report(Newcomer()),
              EffectsAre(Answers(9, StatusCode::kFailedPrecondition,
                                 HasSubstr("brings another spec"))));
}

TEST_F(RefusedProcessTest, OneThatWasTakenIsNot) {
  Join(1, 1, a_);
  EXPECT_THAT(Report(fixture_.ViewOf(1).process),
              EffectsEndWith(Answers(9, StatusCode::kOk)));
}

TEST_F(RefusedProcessTest, NorOneThatWasTakenAfterAll) {
  Join(1, 1, a_);
  protocol::Hello hello = fixture_.HelloOf(2);
  hello.spec->seed = 4711;
  HelloOfNewcomer(hello);
  hello.spec->seed = fixture_.spec().seed;
  hello.process = Newcomer();
  fixture_.Hello(21, hello);
  EXPECT_THAT(Report(Newcomer()), EffectsAre(Answers(9, StatusCode::kOk)));
}

// A running job's worker that this coordinator does not know yet is only a
// temporary reason.
TEST_F(RefusedProcessTest, NorOneThatAnOfferKeepsOut) {
  protocol::Hello offer = fixture_.HelloOf(1);
  offer.generation = {1};
  offer.secret = "any";
  offer.resume = protocol::ResumeState{
      .epoch = {1}, .rank = 0, .members_digest = "digest"};
  fixture_.Step(CreateJob{{1}, fixture_.spec(), ""});
  fixture_.Hello(30, offer);
  ASSERT_THAT(HelloOfNewcomer(fixture_.HelloOf(2)),
              Refuses(20, StatusCode::kFailedPrecondition,
                      StartsWith("job digits runs")));
  EXPECT_THAT(Report(Newcomer()), EffectsAre(Answers(9, StatusCode::kOk)));
}

// --- Text for people --------------------------------------------------------

TEST_F(RefusedProcessTest, EvidenceSaysInWhatProcessesDiffer) {
  Join(1, 1, a_);
  protocol::ProcessInfo other = fixture_.ViewOf(1).process;
  other.start_time += 1;
  Report(other);
  EXPECT_THAT(
      LinesOf(fixture_),
      Contains(
          AllOf(HasSubstr("it is about host a, pid 101, started at tick 502 ("),
                HasSubstr("of it is host a, pid 101, started at tick 501"),
                Not(HasSubstr("boot id")))));
  other = fixture_.ViewOf(1).process;
  other.boot_id = "another";
  Report(other);
  EXPECT_THAT(LinesOf(fixture_),
              Contains(AllOf(HasSubstr("pid 101, boot id another ("),
                             HasSubstr("is host a, pid 101, boot id boot"))));
}

TEST(CauseViewTest, SaysWhichEpochItEnded) {
  CoordinatorFixture fixture(RestartingSpec(2));
  fixture.RunAll();
  fixture.Step(
      ReportEvidence{{9},
                     fixture.job(),
                     "",
                     CoordinatorFixture::DeathOf(1, "killed by signal 9")});
  EXPECT_THAT(fixture.View().cause.message,
              testing::StartsWith("epoch 1 ended: w-1"));
  for (const int i : {1, 2}) {
    protocol::Hello hello = fixture.HelloOf(i);
    hello.incarnation += 100;
    hello.process.pid += 100;
    fixture.Closes(i);
    fixture.Hello(10 + i, hello);
  }
  ASSERT_EQ(fixture.epoch(), EpochId{2});
  EXPECT_THAT(fixture.View().cause.message,
              testing::StartsWith("epoch 1 ended: w-1"));
  fixture.Step(StopJob{{3}, fixture.job(), "", "enough"});
  EXPECT_THAT(fixture.View().cause.message, testing::StartsWith("stopped by"));
}

}  // namespace
}  // namespace lockstep::core
