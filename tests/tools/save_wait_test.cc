#include "tools/ctl/save_wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep::ctl {
namespace {

JobView Saving() {
  JobView view{.name = {"digits"}, .state = JobState::kRunning, .epoch = {1}};
  view.checkpoint.saving = true;
  return view;
}

JobView Committed(int64_t step, int64_t attempt) {
  JobView view = Saving();
  view.checkpoint.saving = false;
  view.checkpoint.committed = CheckpointName{step, 1, attempt};
  return view;
}

JobView Failed(int64_t step, absl::Duration ago) {
  JobView view = Committed(10, 1);
  view.checkpoint.failure = "rank 3: the disk is full";
  view.checkpoint.failed_step = step;
  view.checkpoint.failed_ago = ago;
  return view;
}

TEST(SaveWaitTest, ANewCommitIsTheOutcome) {
  SaveWait wait(Committed(10, 1));
  EXPECT_EQ(wait.Take(Committed(10, 1)), std::nullopt);
  EXPECT_EQ(wait.Take(Committed(20, 2)), absl::OkStatus());
  SaveWait first(JobView{.epoch = {1}});
  EXPECT_EQ(first.Take(Saving()), std::nullopt);
  EXPECT_EQ(first.Take(Committed(20, 2)), absl::OkStatus());
}

TEST(SaveWaitTest, AnOlderOneThatAnotherCoordinatorKnowsIsNot) {
  SaveWait wait(Committed(80, 9));
  EXPECT_EQ(wait.Take(Committed(40, 5)), std::nullopt);
  EXPECT_EQ(wait.Take(Committed(80, 9)), std::nullopt);
  EXPECT_EQ(wait.Take(Committed(86, 10)), absl::OkStatus());
}

TEST(SaveWaitTest, TheSaveInProgressIsAnEarlierOne) {
  JobView before = Committed(10, 1);
  before.checkpoint.saving = true;
  SaveWait wait(before);
  EXPECT_EQ(wait.Take(Committed(20, 2)), std::nullopt);
  EXPECT_EQ(wait.Take(Committed(20, 2)), std::nullopt);
  EXPECT_EQ(wait.Take(Committed(21, 3)), absl::OkStatus());
}

TEST(SaveWaitTest, ANewFailureIsTheOutcome) {
  SaveWait wait(Failed(10, absl::Seconds(5)));
  EXPECT_EQ(wait.Take(Failed(10, absl::Seconds(6))), std::nullopt);
  const auto outcome = wait.Take(Failed(10, absl::Seconds(0)));
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->message(), "rank 3: the disk is full");
  SaveWait other(Failed(10, absl::Seconds(5)));
  EXPECT_TRUE(other.Take(Failed(20, absl::Seconds(7))).has_value());
}

TEST(SaveWaitTest, AnEndOfTheEpochIsAnError) {
  for (const JobState state : {JobState::kEpochEnded, JobState::kCompleted,
                               JobState::kFailed, JobState::kStopped}) {
    SaveWait wait(Committed(10, 1));
    JobView over = Committed(10, 1);
    over.state = state;
    const auto outcome = wait.Take(over);
    ASSERT_TRUE(outcome.has_value());
    EXPECT_TRUE(absl::IsAborted(*outcome));
  }
  SaveWait wait(Committed(10, 1));
  JobView next = Committed(10, 1);
  next.epoch = {2};
  ASSERT_TRUE(wait.Take(next).has_value());
}

TEST(SaveWaitTest, ACommitOfTheLastStepCounts) {
  SaveWait wait(Committed(10, 1));
  JobView over = Committed(20, 2);
  over.state = JobState::kCompleted;
  EXPECT_EQ(wait.Take(over), absl::OkStatus());
}

}  // namespace
}  // namespace lockstep::ctl
