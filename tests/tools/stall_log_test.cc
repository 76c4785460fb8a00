#include "tools/ctl/stall_log.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

absl::Time Second(double seconds) {
  return absl::FromUnixSeconds(1'000'000) + absl::Seconds(seconds);
}

// Workers w-0 .. w-11; those of the ranks `stalled` are waited for.
JobView View(const std::vector<int>& stalled, int seconds = 2) {
  JobView view{.name = {"digits"}, .state = JobState::kRunning};
  for (int rank = 0; rank < 12; ++rank) {
    view.workers.push_back({.name = {absl::StrCat("w-", rank)}, .rank = rank});
  }
  for (const int rank : stalled) {
    view.stalls.push_back(
        {{absl::StrCat("w-", rank)},
         absl::StrCat("step 3: w-", rank, " has not submitted fc.weight for ",
                      seconds, "s; w-10 and w-11 wait")});
  }
  return view;
}

TEST(StallLogTest, NamesAStallOnce) {
  StallLog log;
  EXPECT_THAT(log.Take(View({}), Second(0)), IsEmpty());
  EXPECT_THAT(log.Take(View({1}, 2), Second(2)),
              ElementsAre(HasSubstr("step 3: w-1 has")));
  EXPECT_THAT(log.Take(View({1}, 90), Second(90)), IsEmpty());
}

TEST(StallLogTest, NamesEachWorkerThatStalls) {
  StallLog log;
  EXPECT_THAT(log.Take(View({1}), Second(0)),
              ElementsAre(HasSubstr("w-1 has")));
  EXPECT_THAT(log.Take(View({1, 3, 10}), Second(1)),
              ElementsAre(HasSubstr("w-3 has"), HasSubstr("w-10 has")));
}

TEST(StallLogTest, NamesAWorkerThatIsLateInEachStepOnceAMinute) {
  StallLog log;
  EXPECT_THAT(log.Take(View({1}), Second(0)).size(), 1u);
  for (double second = 1; second < 60; ++second) {
    EXPECT_THAT(log.Take(View({}), Second(second)), IsEmpty());
    EXPECT_THAT(log.Take(View({1}), Second(second + 0.5)), IsEmpty());
  }
  EXPECT_THAT(log.Take(View({}), Second(60)), IsEmpty());
  EXPECT_THAT(log.Take(View({1}), Second(61)).size(), 1u);
}

TEST(StallLogTest, ASentenceAboutNoWorkerIsNoStall) {
  StallLog log;
  JobView view = View({});
  view.stalls = {{{}, "and 3 more ranks"},
                 {{}, "waits 2s for workers that may offer it"}};
  EXPECT_THAT(log.Take(view, Second(0)), IsEmpty());
}

}  // namespace
}  // namespace lockstep::ctl
