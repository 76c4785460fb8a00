// Pipeline stages and a loss that compute on the host, in a pipeline whose
// messages are in device memory: each call downloads its inputs and uploads its
// outputs.
//
//   device   input ──Download──▶ host  stage.Forward ──Upload──▶ output  device

#ifndef LOCKSTEP_EXAMPLES_DIGITS_THROUGH_HOST_H_
#define LOCKSTEP_EXAMPLES_DIGITS_THROUGH_HOST_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "examples/digits/device/device.h"
#include "lockstep/pipeline_stage.h"

namespace lockstep::digits {

// Host copies of views in device memory.
class HostCopies {
 public:
  HostCopies(Device* device, TensorViews views);

  const std::vector<TensorView>& views() const { return views_; }
  // Downloads the views; blocks until it is done.
  absl::Status Fetch();
  // Uploads the copies, which may be changed when it returns.
  absl::Status Bring();

 private:
  Device& device_;
  const TensorViews on_device_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<TensorView> views_;
};

// `stage` and `device` must outlive this object.
class ThroughHost final : public PipelineStage {
 public:
  ThroughHost(PipelineStage* stage, Device* device)
      : stage_(*stage), device_(*device) {}

  absl::Status Forward(int m, TensorViews input, TensorViews output) override;
  absl::Status BackwardInput(int m, TensorViews output_gradient,
                             TensorViews input_gradient) override;
  absl::Status BackwardWeight(int m, TensorViews output_gradient) override;

 private:
  PipelineStage& stage_;
  Device& device_;
};

class LossThroughHost final : public PipelineLoss {
 public:
  LossThroughHost(PipelineLoss* loss, Device* device)
      : loss_(*loss), device_(*device) {}

  absl::StatusOr<double> Loss(int m, TensorViews output,
                              TensorViews gradient) override;

 private:
  PipelineLoss& loss_;
  Device& device_;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_THROUGH_HOST_H_
