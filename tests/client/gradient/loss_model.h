// What a job computes whose loss scale changes with overflows: an independent
// model, in which a scale is a power of two and the steps that overflow are
// given.

#ifndef LOCKSTEP_TESTS_CLIENT_GRADIENT_LOSS_MODEL_H_
#define LOCKSTEP_TESTS_CLIENT_GRADIENT_LOSS_MODEL_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "client/gradient/step_gate.h"
#include "lockstep/loss_scale.h"
#include "lockstep/verdict.h"

namespace lockstep::gradient {

// The scale is 2^exponent: doubled after some finite steps, halved at each
// overflow.
struct LossModel {
  static constexpr LossScaler::Options kOptions = {.initial_scale = 16,
                                                   .growth_interval = 3,
                                                   .scale_min = 4,
                                                   .scale_max = 64};
  static DeviceLossScale Begin() {
    return {.rule = {.growth_factor = 2,
                     .backoff_factor = 0.5,
                     .growth_interval = 3,
                     .scale_min = 4,
                     .scale_max = 64},
            .first = {.scale = 16}};
  }

  int exponent = 4;
  int in_a_row = 0;  // finite steps
  int skipped = 0;   // steps without an update

  LossScale scale() const {
    return {.scale = std::ldexp(1.0F, exponent),
            .steps_without_overflow = static_cast<uint32_t>(in_a_row)};
  }
  void Pass(bool overflows) {
    if (overflows) {
      exponent = std::max(exponent - 1, 2);
      in_a_row = 0;
      skipped += 1;
      return;
    }
    in_a_row += 1;
    if (in_a_row < 3) return;
    exponent = std::min(exponent + 1, 6);
    in_a_row = 0;
  }
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_TESTS_CLIENT_GRADIENT_LOSS_MODEL_H_
