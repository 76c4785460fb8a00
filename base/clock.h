// What time it is: a seam with the machine's clock behind it, or a test.
//
// Only loops and adapters hold a Clock; state machines get the time as an
// argument. Times of one clock compare with each other and with nothing else:
// for people, a SystemClock is near the wall clock, but it never jumps with it.
//
// Threads: all methods from any thread.

#ifndef LOCKSTEP_BASE_CLOCK_H_
#define LOCKSTEP_BASE_CLOCK_H_

#include "absl/time/time.h"

namespace lockstep {

class Clock {
 public:
  // Somebody who sleeps until a moment of this clock.
  class Sleeper {
   public:
    virtual ~Sleeper() = default;
    // Look at the time again. Called on any thread; must not call the clock.
    virtual void TimeChanged() = 0;
  };

  virtual ~Clock() = default;

  // Never decreases.
  virtual absl::Time Now() const = 0;

  // How long to sleep before `moment` may have come: InfiniteDuration if only
  // TimeChanged will tell.
  virtual absl::Duration RealTimeUntil(absl::Time moment) const = 0;

  // From AddSleeper until RemoveSleeper returns, `sleeper` is told of every
  // jump of a clock that does not run by itself.
  virtual void AddSleeper(Sleeper* sleeper) = 0;
  virtual void RemoveSleeper(Sleeper* sleeper) = 0;
};

// CLOCK_MONOTONIC, mapped once, at construction, to the wall clock's time.
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
