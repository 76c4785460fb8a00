// One atomic word that says where this rank is, and decides whether a step was
// passed or given up.
//
//   | steps passed : 60 bits | phase of the next : 3 bits | closed : 1 bit |
//
// Passing a verdict and quiescing race for it. Once Quiesce has returned,
// nothing changes it: what this rank then reports stays true (section 9 of the
// design). Nor does anything once the last step of all ranks has passed.
//
// Why one word. Who asks at any moment where this rank is must never get the
// number of one step with the phase of another: a rank that has left behind
// {5, verdict} would be taken for one that waits for its peers in step 5.

#ifndef LOCKSTEP_CLIENT_GRADIENT_STEP_STATE_H_
#define LOCKSTEP_CLIENT_GRADIENT_STEP_STATE_H_

#include <atomic>
#include <cstdint>

#include "plan/words/protocol.h"

namespace lockstep::gradient {

class StepState {
 public:
  explicit StepState(uint64_t steps)
      : word_(Encode({steps, protocol::Phase::kIdle})) {}

  // The number of the step in progress: as many have been passed.
  uint64_t steps() const { return position().step; }
  protocol::Position position() const {
    return Decode(word_.load(std::memory_order_acquire));
  }

  // The step in progress has got to this phase. A step never goes back: a
  // phase that it is in or beyond changes nothing.
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

  // The verdict of `step` was good; if it is the `last`, no other passes. False
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

  // No step will be passed any more. Where this rank stands for good.
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
