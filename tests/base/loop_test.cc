#include "base/loop.h"

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/support/manual_clock.h"

namespace lockstep {
namespace {

class LoopTest : public testing::Test {
 protected:
  // Runs `task` on the loop and waits for it. Everything due or posted before
  // has then run.
  void On(Loop::Task task = [] {}) {
    std::promise<void> done;
    ASSERT_TRUE(loop_.Post([&] {
      task();
      done.set_value();
    }));
    done.get_future().wait();
  }

  void Log(const std::string& what) { log_ = absl::StrCat(log_, what, " "); }

  ManualClock clock_;
  std::string log_;  // written on the loop, read between two On
  Loop loop_{"test-loop", &clock_};
};

TEST_F(LoopTest, RunsTasksInTheOrderOfTheirPosting) {
  for (int i = 0; i < 5; ++i) loop_.Post([this, i] { Log(absl::StrCat(i)); });
  On();
  EXPECT_EQ(log_, "0 1 2 3 4 ");
}

TEST_F(LoopTest, RunsTasksOfManyThreadsOneAtATimeOnItsOwnThread) {
  constexpr int kThreads = 4, kEach = 1000;
  int count = 0;  // used by the loop only, so not atomic
  bool elsewhere = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        loop_.Post([&] {
          ++count;
          elsewhere |= !loop_.OnThread();
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  On();
  EXPECT_EQ(count, kThreads * kEach);
  EXPECT_FALSE(elsewhere);
  EXPECT_FALSE(loop_.OnThread());
}

TEST_F(LoopTest, ATimerRunsOnceWhenItsMomentHasCome) {
  Loop::Timer timer(&loop_, [this] { Log("ring"); });
  On([&] { timer.Set(clock_.Now() + absl::Seconds(10)); });
  clock_.Advance(absl::Seconds(9));
  On();
  EXPECT_EQ(log_, "");
  clock_.Advance(absl::Seconds(1));
  On();
  EXPECT_EQ(log_, "ring ");
  clock_.Advance(absl::Hours(1));
  On();
  EXPECT_EQ(log_, "ring ");
}

TEST_F(LoopTest, AMovedClockWakesASleepingLoop) {
  std::promise<void> rang;
  Loop::Timer timer(&loop_, [&] { rang.set_value(); });
  On([&] { timer.Set(clock_.Now() + absl::Hours(100)); });
  clock_.Advance(absl::Hours(100));
  rang.get_future().wait();  // no task is posted
}

TEST_F(LoopTest, SettingATimerReplacesItsFormerMoment) {
  Loop::Timer timer(&loop_, [this] { Log("ring"); });
  const absl::Time start = clock_.Now();
  On([&] {
    timer.Set(start + absl::Seconds(1));
    timer.Set(start + absl::Seconds(5));
  });
  clock_.Advance(absl::Seconds(4));
  On();
  EXPECT_EQ(log_, "");
  On([&] { timer.Set(absl::InfiniteFuture()); });
  clock_.Advance(absl::Seconds(4));
  On();
  EXPECT_EQ(log_, "");
}

TEST_F(LoopTest, DueTimersRunInTheOrderOfTheirMoments) {
  Loop::Timer a(&loop_, [this] { Log("a"); });
  Loop::Timer b(&loop_, [this] { Log("b"); });
  Loop::Timer c(&loop_, [this] { Log("c"); });
  const absl::Time start = clock_.Now();
  On([&] {
    a.Set(start + absl::Seconds(3));
    b.Set(start + absl::Seconds(1));
    c.Set(start + absl::Seconds(2));
  });
  clock_.Advance(absl::Seconds(3));
  On();
  EXPECT_EQ(log_, "b c a ");
}

TEST_F(LoopTest, ATimersTaskMayClearOrDestroyAnotherThatIsDue) {
  auto destroyed =
      std::make_unique<Loop::Timer>(&loop_, [this] { Log("destroyed"); });
  Loop::Timer cleared(&loop_, [this] { Log("cleared"); });
  Loop::Timer first(&loop_, [&] {
    Log("first");
    destroyed.reset();
    cleared.Clear();
  });
  On([&] {
    first.Set(clock_.Now() + absl::Seconds(1));
    destroyed->Set(clock_.Now() + absl::Seconds(2));
    cleared.Set(clock_.Now() + absl::Seconds(2));
  });
  clock_.Advance(absl::Seconds(2));
  On();
  EXPECT_EQ(log_, "first ");
}

TEST_F(LoopTest, ATimerThatIsAlwaysDueLeavesRoomForTasks) {
  std::unique_ptr<Loop::Timer> timer;
  int rings = 0;
  timer = std::make_unique<Loop::Timer>(&loop_, [&] {
    ++rings;
    timer->Set(absl::InfinitePast());
  });
  On([&] { timer->Set(absl::InfinitePast()); });
  On();
  int seen = 0;
  On([&] {
    seen = rings;
    timer->Clear();
  });
  EXPECT_GE(seen, 1);
}

TEST_F(LoopTest, StopRunsWhatWasPostedAndDropsWhatComesLater) {
  for (int i = 0; i < 3; ++i) loop_.Post([this] { Log("task"); });
  loop_.Stop();
  EXPECT_EQ(log_, "task task task ");
  EXPECT_FALSE(loop_.Post([this] { Log("late"); }));
  loop_.Stop();
  EXPECT_EQ(log_, "task task task ");
}

TEST_F(LoopTest, TimersAreSilentAfterStop) {
  Loop::Timer timer(&loop_, [this] { Log("ring"); });
  On([&] { timer.Set(clock_.Now() + absl::Seconds(1)); });
  loop_.Stop();
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(log_, "");
}

TEST(LoopDeathTest, ATimerIsSetOnItsLoopOnly) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ManualClock clock;
        Loop loop("test-loop", &clock);
        Loop::Timer timer(&loop, [] {});
        timer.Set(clock.Now());
      },
      "a bug");
}

TEST(SystemClockTest, IsNearTheWallClockAndNeverDecreases) {
  SystemClock clock;
  EXPECT_LT(absl::AbsDuration(clock.Now() - absl::Now()), absl::Minutes(1));
  absl::Time last = clock.Now();
  for (int i = 0; i < 10000; ++i) {
    const absl::Time now = clock.Now();
    ASSERT_GE(now, last);
    last = now;
  }
  EXPECT_EQ(clock.RealTimeUntil(absl::InfiniteFuture()),
            absl::InfiniteDuration());
  EXPECT_EQ(clock.RealTimeUntil(last), absl::ZeroDuration());
}

TEST(SystemClockTest, WakesALoopByItself) {
  SystemClock clock;
  std::promise<absl::Time> rang;
  Loop loop("test-loop", &clock);
  Loop::Timer timer(&loop, [&] { rang.set_value(clock.Now()); });
  const absl::Time moment = clock.Now() + absl::Milliseconds(5);
  loop.Post([&] { timer.Set(moment); });
  EXPECT_GE(rang.get_future().get(), moment);
  loop.Stop();
}

}  // namespace
}  // namespace lockstep
