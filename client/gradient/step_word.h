// One atomic word that decides whether a step was passed or given up.
//
//   | steps passed : 63 bits | quiesced : 1 bit |
//
// Passing a verdict and quiescing race for it. Once Quiesce has returned, no
// Pass succeeds: what this rank then reports stays true (section 9 of the
// design).

#ifndef LOCKSTEP_CLIENT_GRADIENT_STEP_WORD_H_
#define LOCKSTEP_CLIENT_GRADIENT_STEP_WORD_H_

#include <atomic>
#include <cstdint>

namespace lockstep::gradient {

class StepWord {
 public:
  explicit StepWord(uint64_t steps) : word_(steps << 1) {}

  // The number of the step in progress: as many have been passed.
  uint64_t steps() const { return word_.load(std::memory_order_acquire) >> 1; }

  // The verdict of `step` was good. False if this rank had quiesced before, or
  // another step is in progress.
  bool Pass(uint64_t step) {
    uint64_t expected = step << 1;
    return word_.compare_exchange_strong(expected, (step + 1) << 1,
                                         std::memory_order_acq_rel);
  }

  // No step will be passed any more. The steps that were.
  uint64_t Quiesce() {
    return word_.fetch_or(1, std::memory_order_acq_rel) >> 1;
  }

 private:
  std::atomic<uint64_t> word_;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_STEP_WORD_H_
