// A clock that stands still until a test moves it.
//
// Threads: all methods from any thread.

#ifndef LOCKSTEP_TESTS_SUPPORT_MANUAL_CLOCK_H_
#define LOCKSTEP_TESTS_SUPPORT_MANUAL_CLOCK_H_

#include <atomic>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace lockstep {

class ManualClock final : public Clock {
 public:
  // Starts at the Unix epoch plus a day, so that tests can look back.
  absl::Time Now() const override {
    return absl::FromUnixNanos(nanos_.load(std::memory_order_acquire));
  }

  absl::Duration RealTimeUntil(absl::Time moment) const override {
    return moment <= Now() ? absl::ZeroDuration() : absl::InfiniteDuration();
  }

  void Advance(absl::Duration by) {
    Check(by >= absl::ZeroDuration(), "time does not run backwards");
    MutexLock lock(&mutex_);
    nanos_.fetch_add(absl::ToInt64Nanoseconds(by), std::memory_order_release);
    for (Sleeper* sleeper : sleepers_) sleeper->TimeChanged();
  }

  void AddSleeper(Sleeper* sleeper) override {
    MutexLock lock(&mutex_);
    sleepers_.insert(sleeper);
  }
  void RemoveSleeper(Sleeper* sleeper) override {
    MutexLock lock(&mutex_);
    sleepers_.erase(sleeper);
  }

 private:
  std::atomic<int64_t> nanos_{absl::ToInt64Nanoseconds(absl::Hours(24))};
  Mutex mutex_;
  std::set<Sleeper*> sleepers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_MANUAL_CLOCK_H_
