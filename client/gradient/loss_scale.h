// The options of a loss scale on the device: their checks, and their form for
// the gate.
//
// Pure.

#ifndef LOCKSTEP_CLIENT_GRADIENT_LOSS_SCALE_H_
#define LOCKSTEP_CLIENT_GRADIENT_LOSS_SCALE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/gradient/step_gate.h"
#include "kernels/loss_scale.h"
#include "lockstep/loss_scale.h"
#include "lockstep/verdict.h"

namespace lockstep::gradient {

// Scales are rounded to f32. InvalidArgument names the first invalid option,
// its value and its domain.
absl::StatusOr<DeviceLossScale> DeviceLossScaleOf(
    const LossScaler::Options& options);

// InvalidArgument unless the scale is one of the rule's.
absl::Status CheckLossScale(const kernels::LossScaleRule& rule,
                            const LossScale& scale);

// Why the loss of a job is not scaled on the device.
absl::Status NoDeviceScalesLoss();

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_LOSS_SCALE_H_
