// The loss: softmax cross-entropy.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_LOSS_H_
#define LOCKSTEP_EXAMPLES_DIGITS_LOSS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "examples/digits/tensor.h"

namespace lockstep::digits {

template <typename T>
struct Loss {
  double value = 0;
  Tensor<T> d_logits;
};

// `logits` has one score per class, `labels` one class per sample. The loss is
// summed over these samples and divided by `global_samples`, the number of
// samples of the step on all ranks. So the losses and gradients of the ranks
// sum to those of the batch.
template <typename T>
Loss<T> SoftmaxCrossEntropy(const Tensor<T>& logits,
                            absl::Span<const int> labels,
                            int64_t global_samples);

// The number of samples whose highest score is at their label.
template <typename T>
int CountCorrect(const Tensor<T>& logits, absl::Span<const int> labels);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_LOSS_H_
