#include "examples/digits/through_host.h"

#include "lockstep/dtype.h"

namespace lockstep::digits {

HostCopies::HostCopies(Device* device, TensorViews views)
    : device_(*device), on_device_(views) {
  for (const TensorView& view : views) {
    memory_.emplace_back(static_cast<size_t>(view.elements()) *
                         SizeOf(view.type.dtype));
    views_.push_back({memory_.back().data(), view.type});
  }
}

absl::Status HostCopies::Fetch() {
  for (size_t i = 0; i < views_.size(); ++i) {
    absl::Status done =
        device_.Download(on_device_[i].data, views_[i].data, memory_[i].size());
    if (!done.ok()) return done;
  }
  return absl::OkStatus();
}

absl::Status HostCopies::Bring() {
  for (size_t i = 0; i < views_.size(); ++i) {
    absl::Status done =
        device_.Upload(views_[i].data, on_device_[i].data, memory_[i].size());
    if (!done.ok()) return done;
  }
  return absl::OkStatus();
}

absl::Status ThroughHost::Forward(int m, TensorViews input,
                                  TensorViews output) {
  HostCopies in(&device_, input);
  HostCopies out(&device_, output);
  absl::Status done = in.Fetch();
  if (done.ok()) done = stage_.Forward(m, in.views(), out.views());
  return done.ok() ? out.Bring() : done;
}

absl::Status ThroughHost::BackwardInput(int m, TensorViews output_gradient,
                                        TensorViews input_gradient) {
  HostCopies d_out(&device_, output_gradient);
  HostCopies d_in(&device_, input_gradient);
  absl::Status done = d_out.Fetch();
  if (done.ok()) done = stage_.BackwardInput(m, d_out.views(), d_in.views());
  return done.ok() ? d_in.Bring() : done;
}

absl::Status ThroughHost::BackwardWeight(int m, TensorViews output_gradient) {
  HostCopies d_out(&device_, output_gradient);
  absl::Status done = d_out.Fetch();
  return done.ok() ? stage_.BackwardWeight(m, d_out.views()) : done;
}

absl::StatusOr<double> LossThroughHost::Loss(int m, TensorViews output,
                                             TensorViews gradient) {
  HostCopies out(&device_, output);
  HostCopies d_out(&device_, gradient);
  if (absl::Status got = out.Fetch(); !got.ok()) return got;
  absl::StatusOr<double> loss = loss_.Loss(m, out.views(), d_out.views());
  if (!loss.ok()) return loss;
  if (absl::Status put = d_out.Bring(); !put.ok()) return put;
  return loss;
}

}  // namespace lockstep::digits
