#include "client/gradient/step_times.h"

#include "gtest/gtest.h"

namespace lockstep::gradient {
namespace {

absl::Time At(double seconds) {
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

TEST(StepTimesTest, MeansAreOfTheStepsSinceTheLastQuestion) {
  StepTimes times(At(0));
  times.Held(absl::Seconds(0.25));
  times.Held(absl::Seconds(0.5));
  times.Passed(At(2));
  EXPECT_EQ(times.exposed(), absl::Seconds(0.75));
  times.Held(absl::Seconds(0.25));
  times.Passed(At(6));
  EXPECT_EQ(times.exposed(), absl::Seconds(0.25)) << "of the last step";
  StepTimes::Means means = times.TakeMeans();
  EXPECT_EQ(means.step_seconds, 3);
  EXPECT_EQ(means.exposed_seconds, 0.5);

  times.Passed(At(7));
  means = times.TakeMeans();
  EXPECT_EQ(means.step_seconds, 1);
  EXPECT_EQ(means.exposed_seconds, 0);
  EXPECT_EQ(times.TakeMeans().step_seconds, 0) << "no step has passed";
}

TEST(StepTimesTest, APauseIsNobodysTime) {
  StepTimes times(At(0));
  times.Passed(At(2));
  times.Paused(absl::Seconds(100));
  EXPECT_EQ(times.Taken(At(103)), absl::Seconds(1));
  times.Passed(At(104));
  EXPECT_EQ(times.TakeMeans().step_seconds, 2);
}

}  // namespace
}  // namespace lockstep::gradient
