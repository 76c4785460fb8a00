// One named thread that owns a state machine; everyone else posts to it.
//
//   Loop loop("ls-core", &clock);
//   Loop::Timer wake(&loop, [&] { Apply(Wake{}); });
//   loop.Post([&] { Apply(event); wake.Set(machine.NextWake()); });
//
// Tasks run one at a time, in the order of their posting. Timers that are due
// run before the tasks that were posted after their moment, so that a test with
// a manual clock knows what has happened once a task of its own has run.
//
// Threads:   Post, OnThread and clock() from any thread; Stop and the
//            destructor from any thread but the loop's own.
// Ownership: what tasks and timers refer to must live until Stop returned. An
//            owner with a Loop among its members calls Stop first thing in its
//            destructor.

#ifndef LOCKSTEP_BASE_LOOP_H_
#define LOCKSTEP_BASE_LOOP_H_

#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace lockstep {

class Loop : private Clock::Sleeper {
 public:
  using Task = absl::AnyInvocable<void()>;
  class Timer;

  // Starts the thread. `name` is what ps and debuggers show: at most 15
  // characters. `clock` must outlive the loop.
  Loop(const std::string& name, Clock* clock);
  ~Loop() override;
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Never blocks. False after Stop has begun: the task was dropped.
  bool Post(Task task);

  // Runs what was posted before, then ends the thread. Timers do not run any
  // more. May be called again.
  void Stop();

  bool OnThread() const { return std::this_thread::get_id() == id_; }
  const Clock& clock() const { return *clock_; }

 private:
  void Run();
  // False once there is nothing left to do for good.
  bool WaitForWork(std::vector<Task>* tasks);
  void RunDueTimers();
  void TimeChanged() override;

  Clock* const clock_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<Task> posted_ ABSL_GUARDED_BY(mutex_);
  bool time_changed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // The loop thread's own.
  std::set<std::pair<absl::Time, Timer*>> timers_;

  std::thread thread_;
  std::thread::id id_;
};

// Calls `task` on the loop once after each Set. Lives on the loop: Set, Clear
// and the destructor are called on its thread, or after Stop. Its own task must
// not destroy it.
class Loop::Timer {
 public:
  Timer(Loop* loop, Task task);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // At `when` or as soon after as the loop can; replaces an earlier Set.
  // InfiniteFuture clears. A moment that has passed is due at once, but other
  // tasks run in between.
  void Set(absl::Time when);
  void Clear();

 private:
  friend class Loop;
  Loop* const loop_;
  Task task_;
  absl::Time when_ = absl::InfiniteFuture();
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_LOOP_H_
