// The current time: an interface with the machine's clock, or a test's clock,
// behind it.
//
// Only loops and adapters have a Clock; state machines get the time as an
// argument. Times are comparable only with times of the same clock. A
// SystemClock is near the wall clock, for people, but does not jump with it.
//
// Threads: all methods from any thread.

#ifndef LOCKSTEP_BASE_CLOCK_H_
#define LOCKSTEP_BASE_CLOCK_H_

#include "absl/time/time.h"

namespace lockstep {

class Clock {
 public:
  // Sleeps until a time of this clock.
  class Sleeper {
   public:
    virtual ~Sleeper() = default;
    // The time may have changed: read it again. Called on any thread; must not
    // call the clock.
    virtual void TimeChanged() = 0;
  };

  virtual ~Clock() = default;

  // Never decreases.
  virtual absl::Time Now() const = 0;

  // How long to sleep until `moment`. InfiniteDuration if only TimeChanged
  // announces it.
  virtual absl::Duration RealTimeUntil(absl::Time moment) const = 0;

  // Between AddSleeper and the return of RemoveSleeper, `sleeper` is notified
  // of every jump of a manual clock.
  virtual void AddSleeper(Sleeper* sleeper) = 0;
  virtual void RemoveSleeper(Sleeper* sleeper) = 0;
};

// CLOCK_MONOTONIC plus an offset to the wall clock, read once at construction.
class SystemClock final : public Clock {
 public:
  SystemClock();
  absl::Time Now() const override;
  absl::Duration RealTimeUntil(absl::Time moment) const override;
  void AddSleeper(Sleeper*) override {}
  void RemoveSleeper(Sleeper*) override {}

 private:
  const absl::Time origin_;  // the wall time at monotonic zero
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_CLOCK_H_
