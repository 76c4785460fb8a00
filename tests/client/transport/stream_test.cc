#include "lockstep/stream.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

// An event that completes at Open.
class Gate {
 public:
  ~Gate() { Open(); }

  Event Closed() {
    opener_.Enqueue([this] {
      MutexLock lock(&mutex_);
      while (!open_) changed_.Wait(&mutex_);
      return absl::OkStatus();
    });
    return opener_.Record();
  }

  void Open() {
    MutexLock lock(&mutex_);
    open_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool open_ = false;
  HostStream opener_;
};

TEST(StreamTest, RunsWorkInOrderOnItsOwnThread) {
  HostStream stream("order");
  std::vector<int> ran;
  std::thread::id thread;
  for (int i = 0; i < 100; ++i) {
    stream.Enqueue([&ran, &thread, i] {
      ran.push_back(i);
      thread = std::this_thread::get_id();
      return absl::OkStatus();
    });
  }
  ASSERT_TRUE(stream.Synchronize().ok());
  ASSERT_EQ(ran.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ran[i], i);
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(StreamTest, NamesItsThreadAndKeepsSignalsOut) {
  HostStream stream("a-name-that-is-too-long");
  std::string name(16, '\0');
  sigset_t blocked;
  stream.Enqueue([&] {
    pthread_getname_np(pthread_self(), name.data(), name.size());
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    return absl::OkStatus();
  });
  ASSERT_TRUE(stream.Synchronize().ok());
  EXPECT_STREQ(name.c_str(), "a-name-that-is-");
  EXPECT_TRUE(sigismember(&blocked, SIGPIPE));
  EXPECT_TRUE(sigismember(&blocked, SIGTERM));
  EXPECT_FALSE(sigismember(&blocked, SIGSEGV));
}

TEST(StreamTest, AnEventComesWhenAllBeforeItHasRun) {
  Gate gate;
  HostStream stream;
  EXPECT_TRUE(Event().Done());
  EXPECT_TRUE(stream.Record().Done()) << "nothing was enqueued";
  stream.WaitFor(gate.Closed());
  const Event event = stream.Record();
  const Event copy = event;
  EXPECT_FALSE(event.Done());
  EXPECT_EQ(event.Wait(absl::Milliseconds(1)).code(),
            absl::StatusCode::kDeadlineExceeded);
  gate.Open();
  EXPECT_TRUE(event.Wait().ok());
  EXPECT_TRUE(copy.Done());
}

TEST(StreamTest, WaitsForAnotherStreamsEvent) {
  Gate gate;
  HostStream first, second;
  std::vector<int> ran;  // ordered by the event
  first.WaitFor(gate.Closed());
  first.Enqueue([&] {
    ran.push_back(1);
    return absl::OkStatus();
  });
  second.WaitFor(first.Record());
  second.Enqueue([&] {
    ran.push_back(2);
    return absl::OkStatus();
  });
  gate.Open();
  ASSERT_TRUE(second.Synchronize().ok());
  EXPECT_EQ(ran, std::vector<int>({1, 2}));
}

TEST(StreamTest, SynchronizeGivesTheFirstErrorOnceAndLaterWorkRuns) {
  HostStream stream;
  bool ran = false;
  stream.Enqueue([] { return absl::DataLossError("first"); });
  stream.Enqueue([] { return absl::AbortedError("second"); });
  stream.Enqueue([&] {
    ran = true;
    return absl::OkStatus();
  });
  EXPECT_EQ(stream.Synchronize(), absl::DataLossError("first"));
  EXPECT_TRUE(ran);
  EXPECT_TRUE(stream.Synchronize().ok());
}

TEST(StreamTest, LetsGoOfWorkBeforeItsEventComes) {
  HostStream stream;
  auto held = std::make_shared<int>(0);
  std::weak_ptr<int> watch = held;
  stream.Enqueue([held = std::move(held)] { return absl::OkStatus(); });
  const Event event = stream.Record();
  ASSERT_TRUE(event.Wait().ok());
  EXPECT_TRUE(watch.expired());
}

TEST(StreamTest, DestructionRunsAllThatWasEnqueued) {
  int ran = 0;
  {
    HostStream stream;
    for (int i = 0; i < 50; ++i) {
      stream.Enqueue([&] {
        ++ran;
        return absl::OkStatus();
      });
    }
  }
  EXPECT_EQ(ran, 50);
}

TEST(StreamTest, TakesWorkFromManyThreadsAndFromItsOwnWork) {
  std::atomic<int> ran{0};
  HostStream stream;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        stream.Enqueue([&] {
          stream.Enqueue([&] {
            ++ran;
            return absl::OkStatus();
          });
          return absl::OkStatus();
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // The first wait covers all outer work, the second all work that it enqueued.
  ASSERT_TRUE(stream.Synchronize().ok());
  ASSERT_TRUE(stream.Synchronize().ok());
  EXPECT_EQ(ran.load(), 400);
}

TEST(StreamTest, CannotWaitForItself) {
  for (const auto execution :
       {HostStream::Execution::kThread, HostStream::Execution::kInline,
        HostStream::Execution::kOnWait}) {
    HostStream stream("ls-stream", execution);
    stream.Enqueue([&] { return stream.Synchronize(); });
    EXPECT_EQ(stream.Synchronize().code(),
              absl::StatusCode::kFailedPrecondition);
    stream.Enqueue([&] {
      const Event behind_this_work = stream.Record();
      EXPECT_FALSE(behind_this_work.Done());
      return behind_this_work.Wait();
    });
    EXPECT_EQ(stream.Synchronize().code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

TEST(StreamTest, AnInlineStreamStaysOne) {
  HostStream called("ls-stream", HostStream::Execution::kInline);
  EXPECT_EQ(called.SetExecution(HostStream::Execution::kThread).code(),
            absl::StatusCode::kInvalidArgument);
  HostStream stream;
  EXPECT_EQ(stream.SetExecution(HostStream::Execution::kInline).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(stream.execution(), HostStream::Execution::kThread);
}

// --- Streams that run on their callers' threads
// --------------------------------

TEST(InlineStreamTest, RunsWorkBeforeTheCallReturns) {
  HostStream stream("inline", HostStream::Execution::kInline);
  std::thread::id thread;
  stream.Enqueue([&thread] {
    thread = std::this_thread::get_id();
    return absl::OkStatus();
  });
  EXPECT_EQ(thread, std::this_thread::get_id());
  EXPECT_TRUE(stream.Record().Done());
}

TEST(InlineStreamTest, WorkThatEnqueuesWorkRunsItAfterItself) {
  HostStream stream("inline", HostStream::Execution::kInline);
  std::string ran;
  stream.Enqueue([&] {
    stream.Enqueue([&ran] {
      ran += "b";
      return absl::OkStatus();
    });
    ran += "a";
    return absl::OkStatus();
  });
  EXPECT_EQ(ran, "ab");
}

TEST(InlineStreamTest, KeepsItsFirstErrorUntilItIsAskedFor) {
  HostStream stream("inline", HostStream::Execution::kInline);
  stream.Enqueue([] { return absl::AbortedError("first"); });
  stream.Enqueue([] { return absl::InternalError("second"); });
  EXPECT_EQ(stream.Synchronize(), absl::AbortedError("first"));
  EXPECT_TRUE(stream.Synchronize().ok());
}

TEST(InlineStreamTest, TriesOnlyWhatIsNextAndThenRunsWhatCameMeanwhile) {
  HostStream stream("inline", HostStream::Execution::kInline);
  std::string ran;
  EXPECT_TRUE(stream.TryRun([&] {
    EXPECT_FALSE(stream.TryRun([&ran] {
      ran += "never";
      return absl::OkStatus();
    }));
    stream.Enqueue([&ran] {
      ran += "b";
      return absl::OkStatus();
    });
    ran += "a";
    return absl::AbortedError("of the first");
  }));
  EXPECT_EQ(ran, "ab");
  EXPECT_EQ(stream.Synchronize(), absl::AbortedError("of the first"));
}

TEST(ThreadStreamTest, LeavesNothingToTheCallerToTry) {
  HostStream stream("thread");
  EXPECT_FALSE(stream.TryRun([] { return absl::AbortedError("it ran"); }));
  EXPECT_TRUE(stream.Synchronize().ok());
}

TEST(InlineStreamTest, WaitsForAnEventOfAnotherStream) {
  Gate gate;
  HostStream stream("inline", HostStream::Execution::kInline);
  const Event closed = gate.Closed();
  std::thread opener([&gate] { gate.Open(); });
  stream.WaitFor(closed);
  EXPECT_TRUE(closed.Done());
  opener.join();
}

TEST(InlineStreamTest, CallersOnManyThreadsRunOneAtATimeAndNothingIsLost) {
  HostStream stream("inline", HostStream::Execution::kInline);
  int ran = 0;  // guarded by the stream, which runs one work at a time
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        stream.Enqueue([&ran] {
          ++ran;
          return absl::OkStatus();
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_TRUE(stream.Synchronize().ok());
  EXPECT_EQ(ran, 2000);
}

// --- Streams that run on waiting threads
// --------------------------------------------------------------

constexpr auto kThread = HostStream::Execution::kThread;
constexpr auto kOnWait = HostStream::Execution::kOnWait;

TEST(OnWaitStreamTest, WhoWaitsForAMomentRunsWhatIsBeforeIt) {
  HostStream stream("on wait", kOnWait);
  std::string ran;
  const auto add = [&](char c) {
    stream.Enqueue([&ran, c] {
      ran += c;
      return absl::OkStatus();
    });
  };
  std::thread::id thread;
  stream.Enqueue([&thread] {
    thread = std::this_thread::get_id();
    return absl::OkStatus();
  });
  add('a');
  const Event between = stream.Record();
  add('b');
  EXPECT_EQ(ran, "");
  EXPECT_FALSE(between.Done());
  EXPECT_TRUE(between.Wait().ok());
  EXPECT_EQ(ran, "a");
  EXPECT_EQ(thread, std::this_thread::get_id());
  EXPECT_TRUE(stream.Synchronize().ok());
  EXPECT_EQ(ran, "ab");
}

TEST(OnWaitStreamTest, IsRunByAnotherStreamThatWaitsForIt) {
  HostStream stream("on wait", kOnWait);
  bool ran = false;
  stream.Enqueue([&ran] {
    ran = true;
    return absl::OkStatus();
  });
  HostStream other;
  other.WaitFor(stream.Record());
  EXPECT_TRUE(other.Synchronize().ok());
  EXPECT_TRUE(ran);
}

TEST(OnWaitStreamTest, WhoWaitsWhileAnotherRunsItsWorkGetsItsTurn) {
  Gate gate;
  HostStream stream("on wait", kOnWait);
  std::string ran;
  stream.WaitFor(gate.Closed());
  stream.Enqueue([&ran] {
    ran += "a";
    return absl::OkStatus();
  });
  const Event first = stream.Record();
  stream.Enqueue([&ran] {
    ran += "b";
    return absl::OkStatus();
  });
  const Event last = stream.Record();
  std::thread earlier([&] { EXPECT_TRUE(first.Wait().ok()); });
  std::thread later([&] { EXPECT_TRUE(last.Wait().ok()); });
  gate.Open();
  earlier.join();
  later.join();
  EXPECT_EQ(ran, "ab");
}

TEST(OnWaitStreamTest, AWaitThatIsWillingForNoTimeRunsNothing) {
  HostStream stream("on wait", kOnWait);
  bool ran = false;
  stream.Enqueue([&ran] {
    ran = true;
    return absl::OkStatus();
  });
  EXPECT_EQ(stream.Record().Wait(absl::ZeroDuration()).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(ran);
}

TEST(OnWaitStreamTest, DestructionRunsWhatNobodyWaitedFor) {
  int ran = 0;
  {
    HostStream stream("on wait", kOnWait);
    for (int i = 0; i < 3; ++i) {
      stream.Enqueue([&ran] {
        ++ran;
        return absl::OkStatus();
      });
    }
  }
  EXPECT_EQ(ran, 3);
}

TEST(OnWaitStreamTest, AMomentOutlivesItsStream) {
  Event moment;
  {
    HostStream stream("on wait", kOnWait);
    stream.Enqueue([] { return absl::OkStatus(); });
    moment = stream.Record();
  }
  EXPECT_TRUE(moment.Done());
  EXPECT_TRUE(moment.Wait().ok());
}

TEST(OnWaitStreamTest, AChangeOfWhoRunsLosesNothingAndKeepsTheOrder) {
  HostStream stream("changing", kThread);
  std::vector<int> ran;
  std::vector<Event> moments;
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(stream.SetExecution(i / 7 % 2 == 0 ? kThread : kOnWait),
              absl::OkStatus());
    stream.Enqueue([&ran, i] {
      ran.push_back(i);
      return absl::OkStatus();
    });
    if (i % 3 == 0) moments.push_back(stream.Record());
  }
  std::vector<std::thread> waiters;
  for (int waiter = 0; waiter < 3; ++waiter) {
    waiters.emplace_back([&, waiter] {
      for (size_t m = waiter; m < moments.size(); m += 3) {
        EXPECT_TRUE(moments[m].Wait().ok());
      }
    });
  }
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_TRUE(stream.Synchronize().ok());
  ASSERT_EQ(ran.size(), 200u);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(ran[i], i);
}

// The thread remains, and ignores work that a waiter runs.
TEST(OnWaitStreamTest, AThreadThatWasPassedOverComesBack) {
  HostStream stream("changing", kThread);
  int ran = 0;
  for (int round = 0; round < 100; ++round) {
    ASSERT_EQ(stream.SetExecution(round % 2 == 0 ? kThread : kOnWait),
              absl::OkStatus());
    for (int i = 0; i < 3; ++i) {
      stream.Enqueue([&ran] {
        ++ran;
        return absl::OkStatus();
      });
    }
    ASSERT_TRUE(stream.Synchronize().ok());
    ASSERT_EQ(ran, 3 * (round + 1));
  }
}

TEST(OnWaitStreamTest, WorkForTheThreadTakesEarlierWorkWithIt) {
  HostStream stream("changing", kOnWait);
  std::vector<std::thread::id> threads;
  const auto note = [&threads] {
    threads.push_back(std::this_thread::get_id());
    return absl::OkStatus();
  };
  stream.Enqueue(note);
  ASSERT_EQ(stream.SetExecution(kThread), absl::OkStatus());
  stream.Enqueue(note);
  EXPECT_TRUE(stream.Synchronize().ok());
  ASSERT_EQ(threads.size(), 2u);
  EXPECT_EQ(threads[0], threads[1]);
  EXPECT_NE(threads[0], std::this_thread::get_id());
}

}  // namespace
}  // namespace lockstep
