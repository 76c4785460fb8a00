#include "lockstep/verdict.h"

#include <algorithm>

namespace lockstep {

double Verdict::ClipCoefficient(double max_norm) const {
  return global_norm > max_norm ? max_norm / global_norm : 1.0;
}

double Verdict::GradientScale() const {
  if (!per_sample) return inverse_scale;
  return samples > 0 ? inverse_scale / samples : 0;
}

double Verdict::UpdateFactor(double max_norm) const {
  return GradientScale() * ClipCoefficient(max_norm);
}

LossScaler::LossScaler(const Options& options)
    : options_(options), scale_(options.initial_scale) {}

bool LossScaler::Update(const Verdict& verdict) {
  if (!verdict.finite) {
    finite_in_a_row_ = 0;
    scale_ = std::max(scale_ * options_.backoff_factor, options_.scale_min);
    return false;
  }
  finite_in_a_row_ += 1;
  if (finite_in_a_row_ == options_.growth_interval) {
    finite_in_a_row_ = 0;
    scale_ = std::min(scale_ * options_.growth_factor, options_.scale_max);
  }
  return true;
}

}  // namespace lockstep
