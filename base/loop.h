// One named thread that owns a state machine. Other threads post tasks to it.
//
//   Loop loop("ls-core", &clock);
//   Loop::Timer wake(&loop, [&] { Apply(Wake{}); });
//   loop.Post([&] { Apply(event); wake.Set(machine.NextWake()); });
//
// Tasks run one at a time, in the order of their posting. A due timer runs
// before the tasks that were posted after its time. So in a test with a manual
// clock, once a posted task has run, all timers due before it have run.
//
// Threads:   Post, OnThread and clock() from any thread; Stop and the
//            destructor from any thread but the loop's.
// Ownership: objects that tasks and timers refer to must live until Stop
//            returns. A class with a Loop member calls Stop first in its
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

  // Starts the thread. ps and debuggers show `name`: at most 15 characters.
  // `clock` must outlive the loop.
  Loop(const std::string& name, Clock* clock);
  ~Loop() override;
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Never blocks. Returns false, and drops the task, after Stop has begun.
  bool Post(Task task);

  // Runs the tasks posted before, then ends the thread. Timers no longer run.
  // May be called again.
  void Stop();

  bool OnThread() const { return std::this_thread::get_id() == id_; }
  const Clock& clock() const { return *clock_; }

 private:
  void Run();
  // Returns false after Stop, once no posted task is left.
  bool WaitForWork(std::vector<Task>* tasks);
  void RunDueTimers();
  void TimeChanged() override;

  Clock* const clock_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<Task> posted_ ABSL_GUARDED_BY(mutex_);
  bool time_changed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // Used by the loop's thread only.
  std::set<std::pair<absl::Time, Timer*>> timers_;

  std::thread thread_;
  std::thread::id id_;
};

// Calls `task` on the loop once after each Set. Set, Clear and the destructor
// are called on the loop's thread, or after Stop. The task must not destroy its
// own timer.
class Loop::Timer {
 public:
  Timer(Loop* loop, Task task);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Due at `when`; replaces an earlier Set. InfiniteFuture clears. A time in
  // the past is due immediately, but other tasks may run first.
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
