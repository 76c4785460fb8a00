// GradientSync calls for the loss scale on the device.

#include "client/gradient/gradient_sync_impl.h"
#include "client/gradient/loss_scale.h"

namespace lockstep {

absl::Status GradientSync::Impl::ScaleLossOnDevice(
    const LossScaler::Options& options) {
  if (sealed() || loss_scale_) {
    return absl::FailedPreconditionError(
        sealed() ? "ScaleLossOnDevice is called after Seal"
                 : "ScaleLossOnDevice was called before");
  }
  const JobSpec& spec = session_.spec();
  if (spec.transport != "nccl" || spec.reproducible.leaves > 0) {
    return gradient::NoDeviceScalesLoss();
  }
  auto scale = gradient::DeviceLossScaleOf(options);
  if (!scale.ok()) return scale.status();
  loss_scale_ = *scale;
  return absl::OkStatus();
}

absl::Status GradientSync::ScaleLossOnDevice(
    const LossScaler::Options& options) {
  return impl_->ScaleLossOnDevice(options);
}

absl::StatusOr<const LossScale*> GradientSync::DeviceLossScale() const {
  if (absl::Status status = impl_->CheckSealed(); !status.ok()) return status;
  return impl_->engine().DeviceAddressOfLossScale();
}

absl::StatusOr<LossScale> GradientSync::GetLossScale() const {
  if (absl::Status status = impl_->CheckSealed(); !status.ok()) return status;
  return impl_->engine().loss_scale();
}

absl::Status GradientSync::SetLossScale(const LossScale& scale) {
  if (absl::Status status = impl_->CheckSealed(); !status.ok()) return status;
  return impl_->Explained("GradientSync::SetLossScale",
                          impl_->engine().SetLossScale(scale));
}

}  // namespace lockstep
