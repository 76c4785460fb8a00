// What a coordinator is measured by.

#include "server/core/measurements.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/coordinator_fixture.h"

namespace lockstep::core {
namespace {

using protocol::Phase;
using testing::IsEmpty;

class MeasurementsTest : public testing::Test {
 protected:
  Measurements All() { return fixture_.core().Measure(fixture_.now()); }
  JobMeasurements Job() { return All().living.at(0); }

  CoordinatorFixture fixture_{RestartingSpec(2)};
};

TEST_F(MeasurementsTest, WithoutJobsEveryStateIsThere) {
  const Measurements measured = All();
  EXPECT_EQ(measured.jobs.size(), 8u);
  for (const auto& [state, jobs] : measured.jobs) EXPECT_EQ(jobs, 0);
  EXPECT_THAT(measured.living, IsEmpty());
}

TEST_F(MeasurementsTest, AJobHasItsWorkersAndSteps) {
  fixture_.Hello(1);
  EXPECT_EQ(Job().state, JobState::kForming);
  EXPECT_EQ(Job().workers, 1);
  EXPECT_EQ(Job().workers_wanted, 2);
  EXPECT_EQ(Job().stepped_at, absl::InfinitePast());
}

TEST_F(MeasurementsTest, TheTimeOfTheNewestStepOutlivesTheEpoch) {
  fixture_.RunAll();
  EXPECT_EQ(All().jobs.at(JobState::kRunning), 1);
  EXPECT_EQ(Job().epoch, EpochId{1});
  fixture_.Says(1, Stands(1, Phase::kCompute));
  fixture_.Pass(1);
  fixture_.Says(1, Stands(2, Phase::kCompute));
  const absl::Time stepped = fixture_.now();
  EXPECT_EQ(Job().stepped_at, stepped);
  EXPECT_EQ(Job().steps, 2u);
  fixture_.Pass(1);
  fixture_.Says(2, Stands(2, Phase::kCompute));
  EXPECT_EQ(Job().stepped_at, stepped) << "no newer step";
  fixture_.Says(1, fixture_.DeathOf(2, "killed by signal 9"));
  EXPECT_EQ(Job().state, JobState::kEpochEnded);
  EXPECT_EQ(Job().stepped_at, stepped);
}

TEST_F(MeasurementsTest, AStreamThatBrokeIsNoConnectedWorker) {
  fixture_.RunAll();
  EXPECT_EQ(Job().workers, 2);
  fixture_.Closes(2);
  EXPECT_EQ(Job().workers, 1);
}

TEST_F(MeasurementsTest, StallsAreThoseOfTheView) {
  fixture_.RunAll();
  fixture_.Says(1, Stands(3, Phase::kVerdict));
  fixture_.Says(2, Stands(3, Phase::kCompute));
  EXPECT_EQ(Job().stalls, 0);
  fixture_.WaitWithHeartbeats(300, {1, 2});
  ASSERT_EQ(fixture_.Stalls().size(), 1u);
  EXPECT_EQ(Job().stalls, 1);
}

TEST_F(MeasurementsTest, AnOperatorsPauseShows) {
  fixture_.RunAll();
  EXPECT_FALSE(Job().paused);
  fixture_.Step(
      CommandJob{{1}, fixture_.job(), "", JobCommand::kPause, "", ""});
  EXPECT_TRUE(Job().paused);
}

TEST_F(MeasurementsTest, AJobThatIsOverIsCountedOnly) {
  fixture_.RunAll();
  fixture_.Step(StopJob{{1}, fixture_.job(), "", "enough", ""});
  EXPECT_EQ(All().jobs.at(JobState::kStopped), 1);
  EXPECT_EQ(All().jobs.at(JobState::kRunning), 0);
  EXPECT_THAT(All().living, IsEmpty());
}

TEST_F(MeasurementsTest, LimitsAreThoseOfTheCoordinator) {
  fixture_.Hello(1);
  EXPECT_EQ(All().limits, fixture_.core().LimitUses());
}

}  // namespace
}  // namespace lockstep::core
