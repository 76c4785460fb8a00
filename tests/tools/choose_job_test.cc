#include "tools/ctl/choose_job.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::ctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

JobSummary Job(const std::string& name, JobState state) {
  return {.name = {name}, .state = state};
}

std::string NameOf(const absl::StatusOr<JobName>& job) {
  return job.ok() ? job->value : job.status().ToString();
}

TEST(OnlyJobTest, IsTheOneThereIs) {
  for (const JobState state : {JobState::kRunning, JobState::kCompleted}) {
    EXPECT_EQ(NameOf(OnlyJob({Job("a", state)})), "a");
  }
  EXPECT_TRUE(absl::IsNotFound(OnlyJob({}).status()));
}

TEST(OnlyJobTest, IsTheOneThatIsNotOver) {
  for (const JobState state :
       {JobState::kForming, JobState::kSealed, JobState::kPlanned,
        JobState::kRunning, JobState::kEpochEnded}) {
    EXPECT_EQ(NameOf(OnlyJob({Job("a#1", JobState::kFailed), Job("a", state),
                              Job("b", JobState::kCompleted),
                              Job("c", JobState::kStopped)})),
              "a");
  }
}

TEST(OnlyJobTest, OfSeveralNamesThoseThatCouldBeMeant) {
  const absl::Status two_live =
      OnlyJob({Job("a", JobState::kRunning), Job("b", JobState::kForming),
               Job("old", JobState::kStopped)})
          .status();
  EXPECT_TRUE(absl::IsInvalidArgument(two_live));
  EXPECT_THAT(two_live.message(), AllOf(HasSubstr("2 jobs"), HasSubstr("a, b"),
                                        Not(HasSubstr("old"))));
  EXPECT_THAT(
      OnlyJob({Job("a", JobState::kFailed), Job("b", JobState::kStopped)})
          .status()
          .message(),
      AllOf(HasSubstr("2 jobs"), HasSubstr("a, b")));
}

}  // namespace
}  // namespace lockstep::ctl
