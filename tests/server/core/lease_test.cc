// Members that fall silent, and the proof of life that steps are.

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/coordinator_fixture.h"
#include "tests/server/core/effect_matchers.h"

namespace lockstep::core {
namespace {

using protocol::CauseKind;
using protocol::Phase;
using testing::HasSubstr;
using testing::StartsWith;

// --- Silence ----------------------------------------------------------------

TEST(LeaseTest, SilenceEndsTheEpochAndSaysForHowLong) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  EXPECT_THAT(fixture.WaitWithHeartbeats(9, {1}), NoEffects());
  EXPECT_THAT(
      fixture.WaitWithHeartbeats(2, {1}),
      Includes(
          Sends(1, EpochEndedForGood(
                       1, StartsWith(
                              "w-2 (rank 1, host a, pid 102) fell silent: "
                              "nothing was heard of it for 10s, last "
                              "reported at step 0 between steps, 10s ago"))),
          Sends(2, EpochEndedForGood(1))));
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kLeaseExpired);
}

TEST(LeaseTest, AllWhoFellSilentTogetherAreNamedInOneCause) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.WaitWithHeartbeats(11, {1});
  EXPECT_EQ(fixture.View().cause.workers,
            (std::vector<WorkerName>{W(2), W(3)}));
}

TEST(LeaseTest, EveryMessageRenewsIt) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  for (uint64_t step = 0; step < 30; ++step) {
    EXPECT_THAT(fixture.Says(1, Stands(step, Phase::kCompute)), NoEffects());
    EXPECT_THAT(fixture.Says(2, protocol::Heartbeat{}, EpochId{77}),
                NoEffects());
    EXPECT_THAT(fixture.Wait(1), NoEffects());
  }
}

TEST(LeaseTest, AShortLeaseCountsEvenForASuspect) {
  JobSpec spec = SpecOf(2);
  spec.timeouts.lease = absl::Milliseconds(500);
  CoordinatorFixture fixture(spec);
  fixture.RunAll();
  fixture.Closes(2);
  fixture.Says(1, protocol::Heartbeat{});
  fixture.Wait(0.3);
  fixture.Says(1, protocol::Heartbeat{});
  fixture.Wait(0.2);
  EXPECT_EQ(fixture.View().cause.kind, CauseKind::kLeaseExpired);
}

// Their machine slept, or was cut off: heartbeats come just before the end of a
// second lease.
TEST(LeaseTest, AllWorkersGetASecondOneIfAllFallSilent) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.WaitWithHeartbeats(3, {1, 2, 3});
  EXPECT_THAT(fixture.Wait(18), NoEffects());
  for (const uint64_t session : {1, 2, 3}) {
    fixture.Says(session, protocol::Heartbeat{});
  }
  EXPECT_THAT(fixture.WaitWithHeartbeats(15, {1, 2, 3}), NoEffects());
  EXPECT_EQ(fixture.View().state, JobState::kRunning);
}

TEST(LeaseTest, AllAreLostIfAllStaySilent) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.WaitWithHeartbeats(3, {1, 2, 3});
  fixture.Wait(21);
  EXPECT_EQ(fixture.View().cause.workers,
            (std::vector<WorkerName>{W(1), W(2), W(3)}));
}

// One goes on just after its lease: the others are lost.
TEST(LeaseTest, ASecondOneIsNotForThoseWhoStaySilent) {
  CoordinatorFixture fixture(SpecOf(3));
  fixture.RunAll();
  fixture.WaitWithHeartbeats(3, {1, 2, 3});
  fixture.Wait(12);
  fixture.WaitWithHeartbeats(9, {2});
  EXPECT_EQ(fixture.View().cause.workers,
            (std::vector<WorkerName>{W(1), W(3)}));
}

// After a stop of the coordinator all workers look silent; none is lost.
// --- Proof of life ----------------------------------------------------------

// All three ranks train; the control link of worker 3 is cut.
class CutControlLinkTest : public testing::Test {
 protected:
  CutControlLinkTest() {
    fixture_.RunAll();
    for (const uint64_t session : {1, 2, 3}) {
      fixture_.Says(session, Stands(1, Phase::kCompute));
    }
  }
  // Workers 1 and 2 report four steps a second.
  void TrainFor(int seconds) {
    for (int quarter = 0; quarter < 4 * seconds; ++quarter) {
      fixture_.Wait(0.25);
      step_ += 1;
      for (const uint64_t session : {1, 2}) {
        fixture_.Says(session, Stands(step_, Phase::kCompute));
      }
    }
  }
  int LinesWith(const std::string& text) const {
    const std::vector<EventView> events = fixture_.View().events;
    return static_cast<int>(
        std::count_if(events.begin(), events.end(), [&](const EventView& line) {
          return line.text.find(text) != std::string::npos;
        }));
  }

  CoordinatorFixture fixture_{RestartingSpec(3)};
  uint64_t step_ = 1;
};

// The control lease of 10 s ended a healthy epoch.
TEST_F(CutControlLinkTest, EndsNothingWhileStepsGoOn) {
  TrainFor(15);
  EXPECT_EQ(fixture_.View().state, JobState::kRunning);
  EXPECT_EQ(LinesWith("w-3 (rank 2, host a, pid 103) is not heard, but takes "
                      "part in steps"),
            1);
  fixture_.Resume(23, 3);
  EXPECT_EQ(fixture_.View().state, JobState::kRunning);
}

// The deadline of a minute passes: the member cannot say that it goes on.
TEST_F(CutControlLinkTest, NorIsTheMemberCalledStuck) {
  TrainFor(70);
  EXPECT_TRUE(fixture_.View().stalls.empty());
  EXPECT_EQ(fixture_.View().state, JobState::kRunning);
}

TEST_F(CutControlLinkTest, NorIfItsStreamBreaks) {
  fixture_.Closes(3, "reset");
  TrainFor(15);
  EXPECT_EQ(fixture_.View().state, JobState::kRunning);
  EXPECT_EQ(fixture_.ViewOf(3).state, WorkerState::kSuspect);
  fixture_.Resume(23, 3);
  EXPECT_EQ(fixture_.ViewOf(3).state, WorkerState::kReady);
}

TEST_F(CutControlLinkTest, OneThatDiesMeanwhileIsLostALeaseAfterTheLastStep) {
  TrainFor(15);
  EXPECT_THAT(fixture_.WaitWithHeartbeats(9, {1, 2}), NoEffects());
  fixture_.WaitWithHeartbeats(2, {1, 2});
  EXPECT_EQ(fixture_.View().cause.kind, CauseKind::kLeaseExpired);
  EXPECT_EQ(fixture_.View().cause.workers, std::vector<WorkerName>{W(3)});
}

// Survivors pass the verdict that it had entered, and say so afterwards.
TEST_F(CutControlLinkTest, AStepReportedJustAfterADeathProvesNothing) {
  fixture_.Closes(3, "reset");
  fixture_.Pass(0.2);
  fixture_.Says(1, Stands(2, Phase::kCompute));
  fixture_.Wait(0.9);
  EXPECT_EQ(fixture_.View().cause.kind, CauseKind::kStreamLost);
}

// What survivors report first after a restart may have passed long ago.
TEST_F(CutControlLinkTest, AfterARestartFirstReportsProveNothing) {
  fixture_.Restart();
  for (const int i : {1, 2}) {
    fixture_.Resume(20 + i, i);
    fixture_.Says(20 + i, Stands(9, Phase::kVerdict));
  }
  fixture_.WaitWithHeartbeats(11, {21, 22});
  EXPECT_EQ(fixture_.View().state, JobState::kEpochEnded);
  EXPECT_EQ(fixture_.View().cause.workers, std::vector<WorkerName>{W(3)});
}

TEST(LeaseTest, LeasesBeginAnewWhenTheCoordinatorItselfWasStopped) {
  CoordinatorFixture fixture(SpecOf(2));
  fixture.RunAll();
  fixture.WaitWithHeartbeats(3, {1, 2});
  fixture.Pass(60);
  EXPECT_THAT(fixture.Step(TimerExpired{}), NoEffects());
  EXPECT_THAT(fixture.WaitWithHeartbeats(9, {1}), NoEffects());
  EXPECT_THAT(
      fixture.Wait(1),
      FailsJob(1, HasSubstr("w-2 (rank 1, host a, pid 102) fell silent")));
}

// After a stop of any length, a worker with four heartbeats for each lease is
// not lost.
TEST(LeaseTest, NoStopOfAnyLengthLosesAHealthyWorker) {
  for (int tenths = 0; tenths <= 300; ++tenths) {
    CoordinatorFixture fixture(SpecOf(2));
    fixture.RunAll();
    for (int beat = 0; beat < 3; ++beat) {
      fixture.Wait(2.4);
      for (const uint64_t session : {1, 2}) {
        fixture.Says(session, protocol::Heartbeat{});
      }
    }
    fixture.Wait(2.3);  // their next heartbeats are due
    fixture.Pass(tenths / 10.0);
    EXPECT_THAT(fixture.Step(TimerExpired{}), NoEffects())
        << "stopped for " << tenths / 10.0;
  }
}

}  // namespace
}  // namespace lockstep::core
