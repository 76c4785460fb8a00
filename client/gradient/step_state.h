// This rank's position in one atomic word, which also decides whether a step
// passed or was given up.
//
//   | steps passed : 60 bits | phase of the next : 3 bits | closed : 1 bit |
//
// Passing a verdict and quiescing race for it. After Quiesce has returned, or
// the last step of all ranks has passed, the word never changes: a position
// that this rank reports stays true (docs/architecture.md, "Step agreement").
//
// One word, because a reader must never combine the number of one step with the
// phase of another: a rank that has just left {5, verdict} would appear to wait
// for its peers in step 5.

#ifndef LOCKSTEP_CLIENT_GRADIENT_STEP_STATE_H_
#define LOCKSTEP_CLIENT_GRADIENT_STEP_STATE_H_

#include <atomic>
#include <cstdint>

#include "protocol/types.h"

namespace lockstep::gradient {

class StepState {
 public:
  explicit StepState(uint64_t steps)
      : word_(Encode({steps, protocol::Phase::kIdle})) {}

  // The number of the step in progress, which is the number of steps passed.
  uint64_t steps() const { return position().step; }
  protocol::Position position() const {
    return Decode(word_.load(std::memory_order_acquire));
  }

  // Sets the phase of the step in progress. Phases only advance: a phase that
  // is not later than the current one changes nothing.
  void Enter(protocol::Phase phase) {
    uint64_t now = word_.load(std::memory_order_acquire);
    uint64_t next = 0;
    do {
      const protocol::Position at = Decode(now);
      if (IsClosed(now) || phase <= at.phase) return;
      next = Encode({at.step, phase});
    } while (!word_.compare_exchange_weak(now, next, std::memory_order_acq_rel,
                                          std::memory_order_acquire));
  }

  // The verdict of `step` passes; if it is the `last`, no later one does. False
  // if the word was closed before, or another step is in progress.
  bool Pass(uint64_t step, bool last = false) {
    const uint64_t passed = Encode({step + 1, protocol::Phase::kIdle}) |
                            (last ? kClosed : uint64_t{0});
    uint64_t now = word_.load(std::memory_order_acquire);
    do {
      if (IsClosed(now) || Decode(now).step != step) return false;
    } while (!word_.compare_exchange_weak(
        now, passed, std::memory_order_acq_rel, std::memory_order_acquire));
    return true;
  }

  // Ends passing: no later step passes. Returns this rank's final position.
  protocol::Position Quiesce() {
    return Decode(word_.fetch_or(kClosed, std::memory_order_acq_rel));
  }

 private:
  static constexpr uint64_t kClosed = 1;

  static bool IsClosed(uint64_t word) { return (word & kClosed) != 0; }
  static uint64_t Encode(protocol::Position at) {
    return at.step << 4 | static_cast<uint64_t>(at.phase) << 1;
  }
  static protocol::Position Decode(uint64_t word) {
    return {word >> 4, static_cast<protocol::Phase>(word >> 1 & 7)};
  }

  std::atomic<uint64_t> word_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_STEP_STATE_H_
