#include "server/runtime/watches.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::runtime {
namespace {

const JobName kJob{"digits"};

struct Eyes final : Watcher {
  void Show(const JobView& view) override { views.push_back(view); }
  void End(const absl::Status& status) override { ends.push_back(status); }
  std::vector<JobView> views;
  std::vector<absl::Status> ends;
};

class WatchesTest : public testing::Test {
 protected:
  WatchesTest() {
    jobs_[kJob].parameters = {{.name = "w"}};
    jobs_[kJob].buckets = {{.communicator = "world"}};
    jobs_[kJob].workers = {{.name = {"a"}}};
    jobs_[kJob].events = {{.text = "began"}};
  }

  absl::Time At(int milliseconds) {
    return absl::UnixEpoch() + absl::Milliseconds(milliseconds);
  }
  // The core's view: durations grow with every call.
  absl::StatusOr<JobView> Describe(const JobName& job, absl::Time now) {
    ++questions_;
    if (jobs_.count(job) == 0) return absl::NotFoundError("no such job");
    JobView view = jobs_[job];
    for (WorkerView& worker : view.workers) {
      worker.silent_for = worker.no_progress_for = now - At(0);
    }
    for (EventView& event : view.events) event.ago = now - At(0);
    return view;
  }
  std::shared_ptr<Eyes> Watch(uint64_t id, int at, JobName job = kJob) {
    auto eyes = std::make_shared<Eyes>();
    watches_.Add(id, job, eyes, At(at));
    return eyes;
  }
  void ChangeAndUpdate(int at) {
    ++jobs_[kJob].missing;
    watches_.Touch(kJob);
    watches_.Update(At(at));
  }

  std::map<JobName, JobView> jobs_;
  int questions_ = 0;
  Watches watches_{[this](const JobName& job, absl::Time now) {
    return Describe(job, now);
  }};
};

TEST_F(WatchesTest, ShowsAJobAtOnceWithoutWhatGrowsWithTheModel) {
  const auto eyes = Watch(1, 0);
  ASSERT_EQ(eyes->views.size(), 1u);
  EXPECT_TRUE(eyes->views[0].parameters.empty());
  EXPECT_TRUE(eyes->views[0].buckets.empty());
  EXPECT_EQ(eyes->views[0].workers.size(), 1u);
}

TEST_F(WatchesTest, ShowsAChangeButNotMoreThanFiveASecond) {
  const auto eyes = Watch(1, 0);
  for (int at = 10; at <= 1000; at += 10) ChangeAndUpdate(at);
  EXPECT_EQ(eyes->views.size(), 6u);
  EXPECT_EQ(eyes->views.back().missing, 100);
  EXPECT_EQ(questions_, 6);
}

TEST_F(WatchesTest, SaysWhenItWantsToUpdate) {
  EXPECT_EQ(watches_.NextUpdate(), absl::InfiniteFuture());
  const auto eyes = Watch(1, 0);
  EXPECT_EQ(watches_.NextUpdate(), absl::InfiniteFuture());
  watches_.Touch(kJob);
  EXPECT_EQ(watches_.NextUpdate(), At(200));
  watches_.Update(At(200));
  EXPECT_EQ(watches_.NextUpdate(), absl::InfiniteFuture());
}

TEST_F(WatchesTest, PassingTimeIsNoChange) {
  const auto eyes = Watch(1, 0);
  watches_.TouchAll();
  watches_.Update(At(1000));
  EXPECT_EQ(questions_, 2);
  EXPECT_EQ(eyes->views.size(), 1u);
}

TEST_F(WatchesTest, EndsAfterTheViewOfAJobThatIsOver) {
  const auto eyes = Watch(1, 0);
  jobs_[kJob].state = JobState::kFailed;
  watches_.Touch(kJob);
  watches_.Update(At(500));
  ASSERT_EQ(eyes->views.size(), 2u);
  EXPECT_EQ(eyes->views[1].state, JobState::kFailed);
  EXPECT_THAT(eyes->ends, testing::ElementsAre(absl::OkStatus()));
  EXPECT_TRUE(watches_.empty());

  const auto late = Watch(2, 600);
  EXPECT_EQ(late->views.size(), 1u);
  EXPECT_THAT(late->ends, testing::ElementsAre(absl::OkStatus()));
}

TEST_F(WatchesTest, AnUnknownJobEndsAtOnce) {
  const auto eyes = Watch(1, 0, {"other"});
  ASSERT_EQ(eyes->ends.size(), 1u);
  EXPECT_EQ(eyes->ends[0].code(), absl::StatusCode::kNotFound);
}

TEST_F(WatchesTest, SeveralSeeTheSameAndOneMayGo) {
  const auto first = Watch(1, 0);
  const auto second = Watch(2, 50);
  ChangeAndUpdate(250);
  EXPECT_EQ(first->views.size(), 2u);
  EXPECT_EQ(second->views.size(), 2u);
  watches_.Remove(1);
  ChangeAndUpdate(500);
  EXPECT_EQ(first->views.size(), 2u);
  EXPECT_EQ(second->views.size(), 3u);
  EXPECT_TRUE(first->ends.empty());
}

// The second watcher's first view is newer than the first watcher's last.
TEST_F(WatchesTest, ALateWatcherDoesNotHideAChangeFromTheOthers) {
  const auto first = Watch(1, 0);
  ++jobs_[kJob].missing;
  watches_.Touch(kJob);
  Watch(2, 100);
  watches_.Update(At(300));
  ASSERT_EQ(first->views.size(), 2u);
  EXPECT_EQ(first->views[1].missing, 1);
}

TEST_F(WatchesTest, EndAllTellsEverybody) {
  const auto eyes = Watch(1, 0);
  watches_.EndAll(absl::UnavailableError("going down"));
  ASSERT_EQ(eyes->ends.size(), 1u);
  EXPECT_EQ(eyes->ends[0].code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace lockstep::runtime
