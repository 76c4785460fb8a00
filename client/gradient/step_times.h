// Step durations, and the time per step that communication blocked the training
// thread: of the last step, and as means since the last query.
//
//   passed        Submit    Finish           passed    paused
//     │  backward  [copy]    │  waits         │          │
//     ├──────────────────────┴────────────────┼─ ─ ─ ─ ─ ┤ does not count
//     │            └ held ┘  └──── held ──────┤
//     └───────────────── the step ────────────┘
//
// Threads: not thread-safe; the engine's lock guards it.

#ifndef LOCKSTEP_CLIENT_GRADIENT_STEP_TIMES_H_
#define LOCKSTEP_CLIENT_GRADIENT_STEP_TIMES_H_

#include <cstdint>
#include <utility>

#include "absl/time/time.h"

namespace lockstep::gradient {

class StepTimes {
 public:
  explicit StepTimes(absl::Time start) : since_(start), last_(start) {}

  // Elapsed time of the current step, since the last one passed.
  absl::Duration Taken(absl::Time now) const { return now - last_; }

  // Communication blocked the training thread, in the step in progress.
  void Held(absl::Duration duration) { held_ += duration; }

  void Passed(absl::Time now) {
    steps_ += 1;
    last_ = now;
    last_exposed_ = std::exchange(held_, {});
    exposed_ += last_exposed_;
  }

  // Excludes time since the last step passed.
  void Paused(absl::Duration duration) {
    since_ += duration;
    last_ += duration;
  }

  // The last step that passed.
  absl::Duration exposed() const { return last_exposed_; }

  struct Means {
    double step_seconds = 0;
    double exposed_seconds = 0;
  };
  // Means over the steps passed since the last call; zeros if none.
  Means TakeMeans() {
    if (steps_ == 0) return {};
    const Means means{
        .step_seconds = absl::ToDoubleSeconds(last_ - since_) / steps_,
        .exposed_seconds = absl::ToDoubleSeconds(exposed_) / steps_};
    since_ = last_;
    steps_ = 0;
    exposed_ = {};
    return means;
  }

 private:
  absl::Time since_;
  absl::Time last_;
  int64_t steps_ = 0;
  absl::Duration held_;
  absl::Duration last_exposed_;
  absl::Duration exposed_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_STEP_TIMES_H_
