// What a step makes of the loss scale (lockstep/loss_scale.h): a rule that the
// device applies in the step gate, and the host to the journal.
//
//   overflow   scale * backoff_factor, at least scale_min; count 0
//   finite     count + 1; at growth_interval: scale * growth_factor, at most
//              scale_max, and count 0
//
// Products are computed in f64 and rounded once, to f32, so host and device
// have the same bits. Within one launch the gate is the only writer of the
// state.
//
// Threads: values.
// Run:     build/release/bin/kernels_test --gtest_filter='*LossScale*'

#ifndef LOCKSTEP_KERNELS_LOSS_SCALE_H_
#define LOCKSTEP_KERNELS_LOSS_SCALE_H_

#include <cstdint>

#include "kernels/host_device.h"
#include "lockstep/loss_scale.h"

namespace lockstep::kernels {

// scale_min <= scale <= scale_max, both positive and finite; growth_factor at
// least 1 and finite; backoff_factor more than 0, at most 1; growth_interval at
// least 1.
struct LossScaleRule {
  double growth_factor = 2;
  double backoff_factor = 0.5;
  uint64_t growth_interval = 2000;
  float scale_min = 1;
  float scale_max = 16777216;

  bool operator==(const LossScaleRule&) const = default;
};

// Behind a committed step that used `used`.
LOCKSTEP_HD LossScale NextLossScale(const LossScaleRule& rule,
                                    const LossScale& used, bool finite) {
  const double scale = used.scale;
  LossScale next = used;
  if (!finite) {
    const auto reduced = static_cast<float>(scale * rule.backoff_factor);
    next.scale = reduced < rule.scale_min ? rule.scale_min : reduced;
    next.steps_without_overflow = 0;
    return next;
  }
  const uint64_t steps = uint64_t{used.steps_without_overflow} + 1;
  if (steps < rule.growth_interval) {
    next.steps_without_overflow = static_cast<uint32_t>(steps);
    return next;
  }
  const double grown = scale * rule.growth_factor;
  const double largest = rule.scale_max;
  next.scale = static_cast<float>(grown > largest ? largest : grown);
  next.steps_without_overflow = 0;
  return next;
}

// The factor that undoes the scale.
LOCKSTEP_HD double InverseOf(const LossScale& scale) {
  return 1.0 / static_cast<double>(scale.scale);
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_LOSS_SCALE_H_
