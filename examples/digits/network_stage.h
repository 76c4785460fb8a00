// A stage of the network as a PipelineStage.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_NETWORK_STAGE_H_
#define LOCKSTEP_EXAMPLES_DIGITS_NETWORK_STAGE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/digits/loss.h"
#include "examples/digits/network.h"
#include "examples/digits/session_domain.h"
#include "examples/digits/stages.h"
#include "lockstep/pipeline_stage.h"

namespace lockstep::digits {

// Returns the samples of a micro-batch, for the first stage.
using MicroBatchImages = std::function<Tensor<double>(int micro_batch)>;
using MicroBatchLabels = std::function<std::vector<int>(int micro_batch)>;

class NetworkStage final : public PipelineStage {
 public:
  // `domain` may be null; else it outlives the stage, and `images` are whole.
  NetworkStage(uint64_t seed, int stage, int stages, MicroBatchImages images,
               SessionDomain* domain = nullptr)
      : network_(StageNetwork(seed, stage, stages, domain)),
        images_(std::move(images)),
        domain_(domain) {}

  absl::Status Forward(int m, TensorViews input, TensorViews output) override;
  absl::Status BackwardInput(int m, TensorViews output_gradient,
                             TensorViews input_gradient) override;
  absl::Status BackwardWeight(int m, TensorViews output_gradient) override;

  Network<double>& network() { return network_; }

 private:
  Network<double> network_;
  // The first error of the domain.
  absl::Status DomainStatus() const;

  const MicroBatchImages images_;
  SessionDomain* const domain_;
  std::map<int, Trail<double>> trails_;  // of the micro-batches in flight
};

// Softmax cross-entropy, as a fraction of the whole batch's mean.
class DigitsLoss final : public PipelineLoss {
 public:
  DigitsLoss(MicroBatchLabels labels, int64_t global_batch)
      : labels_(std::move(labels)), global_batch_(global_batch) {}

  absl::StatusOr<double> Loss(int m, TensorViews output,
                              TensorViews gradient) override;

 private:
  const MicroBatchLabels labels_;
  const int64_t global_batch_;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_NETWORK_STAGE_H_
