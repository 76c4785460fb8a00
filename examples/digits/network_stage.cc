#include "examples/digits/network_stage.h"

#include <algorithm>

namespace lockstep::digits {
namespace {

Tensor<double> Taken(const TensorView& view, const Shape& shape) {
  Tensor<double> tensor(static_cast<int>(view.type.shape[0]), shape);
  const absl::Span<double> values = view.as<double>();
  std::copy(values.begin(), values.end(), tensor.values().begin());
  return tensor;
}

void Put(const Tensor<double>& tensor, const TensorView& view) {
  std::copy(tensor.values().begin(), tensor.values().end(),
            view.as<double>().begin());
}

}  // namespace

absl::Status NetworkStage::Forward(int m, TensorViews input,
                                   TensorViews output) {
  Tensor<double> samples =
      input.empty() ? images_(m) : Taken(input[0], network_.input_shape());
  if (input.empty() && domain_ != nullptr) {
    samples = OwnRows(samples, domain_->index(), domain_->size());
  }
  Put(network_.Forward(std::move(samples), &trails_[m]), output[0]);
  return DomainStatus();
}

absl::Status NetworkStage::BackwardInput(int m, TensorViews output_gradient,
                                         TensorViews input_gradient) {
  const Tensor<double> d_input = network_.BackwardInput(
      Taken(output_gradient[0], network_.output_shape()), &trails_.at(m));
  if (!input_gradient.empty()) Put(d_input, input_gradient[0]);
  return DomainStatus();
}

absl::Status NetworkStage::DomainStatus() const {
  return domain_ == nullptr ? absl::OkStatus() : domain_->status();
}

absl::Status NetworkStage::BackwardWeight(int m, TensorViews) {
  absl::Status done = network_.BackwardWeights(
      trails_.at(m), [](Parameter<double>&) { return absl::OkStatus(); });
  trails_.erase(m);
  return done;
}

absl::StatusOr<double> DigitsLoss::Loss(int m, TensorViews output,
                                        TensorViews gradient) {
  const int classes = static_cast<int>(output[0].type.shape[1]);
  const digits::Loss<double> loss = SoftmaxCrossEntropy<double>(
      Taken(output[0], {1, 1, classes}), labels_(m), global_batch_);
  Put(loss.d_logits, gradient[0]);
  return loss.value;
}

}  // namespace lockstep::digits
