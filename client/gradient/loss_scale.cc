#include "client/gradient/loss_scale.h"

#include <limits>

#include "absl/strings/str_format.h"

namespace lockstep::gradient {
namespace {

absl::Status Wrong(const char* option, double value, const char* domain) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "LossScaler::Options::%s is %g, must be %s", option, value, domain));
}

// Also for NaN.
bool IsIn(double value, double low, double high) {
  return value >= low && value <= high;
}

}  // namespace

absl::StatusOr<DeviceLossScale> DeviceLossScaleOf(
    const LossScaler::Options& options) {
  using Float = std::numeric_limits<float>;
  constexpr double kMax = std::numeric_limits<double>::max();
  if (!IsIn(options.growth_factor, 1, kMax)) {
    return Wrong("growth_factor", options.growth_factor, "at least 1");
  }
  if (!IsIn(options.backoff_factor, 0, 1) || options.backoff_factor == 0) {
    return Wrong("backoff_factor", options.backoff_factor,
                 "more than 0 and at most 1");
  }
  if (options.growth_interval < 1) {
    return Wrong("growth_interval", options.growth_interval, "at least 1");
  }
  if (!IsIn(options.scale_min, Float::min(), Float::max())) {
    return Wrong("scale_min", options.scale_min,
                 "a positive normal number of f32");
  }
  if (!IsIn(options.scale_max, options.scale_min, Float::max())) {
    return Wrong("scale_max", options.scale_max,
                 "at least scale_min, and a number of f32");
  }
  if (!IsIn(options.initial_scale, options.scale_min, options.scale_max)) {
    return Wrong("initial_scale", options.initial_scale,
                 "between scale_min and scale_max");
  }
  return DeviceLossScale{
      .rule = {.growth_factor = options.growth_factor,
               .backoff_factor = options.backoff_factor,
               .growth_interval =
                   static_cast<uint64_t>(options.growth_interval),
               .scale_min = static_cast<float>(options.scale_min),
               .scale_max = static_cast<float>(options.scale_max)},
      .first = {.scale = static_cast<float>(options.initial_scale)}};
}

absl::Status CheckLossScale(const kernels::LossScaleRule& rule,
                            const LossScale& scale) {
  if (IsIn(scale.scale, rule.scale_min, rule.scale_max)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "the loss scale is %.9g, must be between scale_min, %.9g, and scale_max, "
      "%.9g",
      scale.scale, rule.scale_min, rule.scale_max));
}

absl::Status NoDeviceScalesLoss() {
  return absl::FailedPreconditionError(
      "the loss is scaled on the device only where the device decides steps: "
      "with transport: nccl, without reproducible.leaves, and with one version "
      "on all ranks; use LossScaler, with FinishOptions::inverse_scale");
}

}  // namespace lockstep::gradient
