// What verdicts bring about where steps are in flight, and when.
//
//   run-ahead a: launch k is enqueued once the host has acted on verdict
//   k - a - 1. So what verdict k says can begin with launch k + a + 1 only.
//
//   launch        k            k + 1 .. k + a             k + a + 1
//   a command     all have it  pass as usual; the last    none
//                              one is the last step
//   growth        likewise
//   next plan     all have it  pass with the old one      the new one
//   out of data   the last     void: they communicate,    none
//                 step         and change nothing
//   save          holds        does not hold again
//
// All ranks compute the same, from verdicts that are the same. With a = 0
// everything begins behind the verdict itself. docs/decisions/0027, rule 4.
//
// Launches are numbered from 0. Not thread-safe.

#ifndef LOCKSTEP_CLIENT_GRADIENT_LATE_EFFECTS_H_
#define LOCKSTEP_CLIENT_GRADIENT_LATE_EFFECTS_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "client/gradient/ending.h"
#include "lockstep/job_options.h"
#include "lockstep/verdict.h"

namespace lockstep::gradient {

class LateEffects {
 public:
  LateEffects(int run_ahead, Uneven uneven)
      : run_ahead_(static_cast<uint64_t>(run_ahead)), uneven_(uneven) {}

  // The verdict of a launch that has passed, in order: sets its ending, and
  // takes from it what begins later or has begun. The verdict of a launch may
  // be given again, with the same result: if its step was given up after it was
  // judged, and is rolled forward.
  void Apply(uint64_t launch, Verdict* verdict);

  // The launch after which the next revision of the plan takes effect.
  std::optional<uint64_t> switches_after() const { return switches_after_; }
  void Switched() { switches_after_.reset(); }

  // The last launch of the epoch, if one is known; behind a step that ran out
  // of data it is void.
  std::optional<uint64_t> last_launch() const {
    if (last_.has_value() && void_after_.has_value()) {
      return std::min(*last_, *void_after_ + run_ahead_);
    }
    return void_after_.has_value() ? *void_after_ + run_ahead_ : last_;
  }
  // An ending is known, and the launch that it ends with has not passed.
  bool ends_soon() const { return last_.has_value(); }

  // The launch whose verdict the host must have acted on before it enqueues
  // `next`; none: it may.
  std::optional<uint64_t> AwaitedBy(uint64_t next) const;

 private:
  const uint64_t run_ahead_;
  const Uneven uneven_;
  std::optional<uint64_t> switches_after_;
  std::optional<uint64_t> last_;  // by a command or growth
  Ending ending_ = Ending::kNone;
  bool grows_ = false;
  std::optional<uint64_t> void_after_;  // out of data
  std::optional<uint64_t> saved_at_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_LATE_EFFECTS_H_
