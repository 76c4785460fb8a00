#include "examples/digits/trainer.h"

#include <algorithm>
#include <utility>

#include "examples/digits/loss.h"

namespace lockstep::digits {

template <typename T>
Trainer<T>::Trainer(Network<T>& network, const Recipe& recipe,
                    TrainingSet training_set, Samples samples, Hooks<T> hooks)
    : network_(network),
      sgd_(recipe.sgd, network.parameters()),
      training_set_(std::move(training_set)),
      global_batch_(recipe.global_batch),
      leaves_(recipe.leaves),
      samples_(std::move(samples)),
      hooks_(std::move(hooks)) {}

template <typename T>
absl::Status Trainer<T>::Run(int64_t first, int64_t last) {
  for (int64_t step = first; step < last; ++step) {
    const absl::Status status = Step(step);
    if (!status.ok()) return status;
    if (hooks_.was_last && hooks_.was_last()) break;
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status Trainer<T>::Step(int64_t step) {
  const absl::StatusOr<double> loss = ComputeGradients(step);
  if (!loss.ok()) return loss.status();
  const absl::StatusOr<Verdict> verdict = Agree(step, *loss);
  if (!verdict.ok()) return verdict.status();
  if (*verdict == Verdict::kApply) ApplyUpdate();
  if (hooks_.after_update) hooks_.after_update(step, *loss);
  return absl::OkStatus();
}

template <typename T>
absl::StatusOr<double> Trainer<T>::ComputeGradients(int64_t step) {
  if (hooks_.step_begins) {
    if (absl::Status begun = hooks_.step_begins(); !begun.ok()) return begun;
  }
  std::vector<int> rows;
  for (int64_t sample : samples_(step)) {
    rows.push_back(training_set_.rows[sample]);
  }
  double loss = 0;
  const size_t count = rows.size();
  for (int leaf = 0; leaf < leaves_; ++leaf) {
    const size_t begin = count * leaf / leaves_;
    const size_t end = count * (leaf + 1) / leaves_;
    const absl::StatusOr<double> part =
        ComputeLeaf(absl::MakeSpan(rows).subspan(begin, end - begin));
    if (!part.ok()) return part;
    loss += *part;
  }
  return loss;
}

template <typename T>
absl::StatusOr<double> Trainer<T>::ComputeLeaf(absl::Span<const int> rows) {
  network_.ZeroGradients();
  Trail<T> trail;
  const absl::StatusOr<Tensor<T>> logits = network_.Forward(
      Images<T>(training_set_.dataset, rows), &trail,
      [this](Parameter<T>& p) { return Notify(hooks_.parameter_needed, p); });
  if (!logits.ok()) return logits.status();
  Loss<T> loss = SoftmaxCrossEntropy<T>(
      *logits, Labels(training_set_.dataset, rows), global_batch_);
  const auto d_input = network_.Backward(
      std::move(loss.d_logits), trail,
      [this](Parameter<T>& p) { return Notify(hooks_.gradient_ready, p); });
  if (!d_input.ok()) return d_input.status();
  return loss.value;
}

template <typename T>
absl::Status Trainer<T>::Notify(
    const std::function<absl::Status(Parameter<T>&)>& hook,
    Parameter<T>& parameter) {
  return hook ? hook(parameter) : absl::OkStatus();
}

template <typename T>
absl::StatusOr<Verdict> Trainer<T>::Agree(int64_t step, double loss) {
  if (!hooks_.before_update) return Verdict::kApply;
  return hooks_.before_update(step, loss);
}

template <typename T>
double Accuracy(const Network<T>& network, const Dataset& dataset,
                absl::Span<const int> rows) {
  constexpr size_t kBatch = 64;
  int correct = 0;
  for (size_t begin = 0; begin < rows.size(); begin += kBatch) {
    const absl::Span<const int> batch = rows.subspan(begin, kBatch);
    const Tensor<T> logits =
        network.Forward(Images<T>(dataset, batch), /*trail=*/nullptr);
    correct += CountCorrect<T>(logits, Labels(dataset, batch));
  }
  return static_cast<double>(correct) / static_cast<double>(rows.size());
}

template class Trainer<float>;
template class Trainer<double>;
template double Accuracy(const Network<float>&, const Dataset&,
                         absl::Span<const int>);
template double Accuracy(const Network<double>&, const Dataset&,
                         absl::Span<const int>);

}  // namespace lockstep::digits
