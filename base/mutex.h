// A std::mutex with abseil's thread annotations.
//
// This project does not use abseil's Mutex: the distribution's build of it is
// not instrumented, so ThreadSanitizer would report correct code as a race.

#ifndef LOCKSTEP_BASE_MUTEX_H_
#define LOCKSTEP_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace lockstep {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(mutex) {
    mutex_->Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

// Waits may wake without reason: call them in a loop over the condition.
class CondVar {
 public:
  void Wait(Mutex* mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }

  // Returns false on a timeout. A timeout of more than a day is infinite.
  bool WaitFor(Mutex* mutex, absl::Duration timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (timeout > absl::Hours(24)) {
      Wait(mutex);
      return true;
    }
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    const auto result =
        condition_.wait_for(lock, absl::ToChronoNanoseconds(timeout));
    lock.release();
    return result == std::cv_status::no_timeout;
  }

  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_MUTEX_H_
