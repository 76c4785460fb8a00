#include "base/loop.h"

#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"

namespace lockstep {
namespace {

// A CondVar treats more than a day as infinite.
constexpr absl::Duration kLongestSleep = absl::Hours(1);

// Greater than every Timer*.
Loop::Timer* const kLast =
    reinterpret_cast<Loop::Timer*>(std::numeric_limits<uintptr_t>::max());

}  // namespace

Loop::Loop(const std::string& name, Clock* clock) : clock_(clock) {
  clock_->AddSleeper(this);
  MutexLock lock(&mutex_);  // id_ is set before the thread runs
  thread_ = std::thread([this] { Run(); });
  id_ = thread_.get_id();
  Check(name.size() <= 15, "a thread's name has at most 15 characters");
  // Opens a file in /proc, which can fail; then the thread has no name.
  pthread_setname_np(thread_.native_handle(), name.c_str());
}

Loop::~Loop() { Stop(); }

bool Loop::Post(Task task) {
  MutexLock lock(&mutex_);
  if (stopping_) return false;
  posted_.push_back(std::move(task));
  changed_.NotifyOne();
  return true;
}

void Loop::Stop() {
  Check(!OnThread(), "a loop cannot stop itself: its thread would wait for it");
  if (!thread_.joinable()) return;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyOne();
  }
  thread_.join();
  clock_->RemoveSleeper(this);
}

void Loop::Run() {
  std::vector<Task> tasks;
  while (WaitForWork(&tasks)) {
    RunDueTimers();
    for (Task& task : tasks) task();
    tasks.clear();
  }
  for (Task& task : tasks) task();
}

bool Loop::WaitForWork(std::vector<Task>* tasks) {
  MutexLock lock(&mutex_);
  while (posted_.empty() && !stopping_ && !time_changed_) {
    const absl::Time next =
        timers_.empty() ? absl::InfiniteFuture() : timers_.begin()->first;
    const absl::Duration rest = clock_->RealTimeUntil(next);
    if (rest <= absl::ZeroDuration()) break;
    changed_.WaitFor(&mutex_, rest == absl::InfiniteDuration()
                                  ? rest
                                  : std::min(rest, kLongestSleep));
  }
  time_changed_ = false;
  tasks->swap(posted_);
  return !stopping_;
}

void Loop::RunDueTimers() {
  const absl::Time now = clock_->Now();
  const std::vector<std::pair<absl::Time, Timer*>> due(
      timers_.begin(), timers_.upper_bound({now, kLast}));
  for (const auto& [when, timer] : due) {
    // The task of an earlier timer may have reset, cleared or destroyed this
    // one.
    if (timers_.erase({when, timer}) == 0) continue;
    timer->when_ = absl::InfiniteFuture();
    timer->task_();
  }
}

void Loop::TimeChanged() {
  MutexLock lock(&mutex_);
  time_changed_ = true;
  changed_.NotifyOne();
}

Loop::Timer::Timer(Loop* loop, Task task)
    : loop_(loop), task_(std::move(task)) {}

Loop::Timer::~Timer() { Clear(); }

void Loop::Timer::Set(absl::Time when) {
  if (when == when_) return;
  Clear();
  if (when == absl::InfiniteFuture()) return;
  Check(loop_->OnThread(), "a timer is set on its loop's thread");
  when_ = when;
  loop_->timers_.emplace(when, this);
}

void Loop::Timer::Clear() {
  if (when_ == absl::InfiniteFuture()) return;
  loop_->timers_.erase({when_, this});
  when_ = absl::InfiniteFuture();
}

}  // namespace lockstep
