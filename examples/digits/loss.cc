#include "examples/digits/loss.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace lockstep::digits {
namespace {

template <typename T>
void CheckLabels(const Tensor<T>& logits, absl::Span<const int> labels) {
  if (labels.size() != static_cast<size_t>(logits.batch())) {
    Fatal(absl::StrCat("loss: ", labels.size(), " labels for ", logits.batch(),
                       " samples")
              .c_str());
  }
}

}  // namespace

template <typename T>
Loss<T> SoftmaxCrossEntropy(const Tensor<T>& logits,
                            absl::Span<const int> labels,
                            int64_t global_samples) {
  CheckLabels(logits, labels);
  const int classes = logits.shape().size();
  const T share = T{1} / static_cast<T>(global_samples);
  Loss<T> loss{.value = 0, .d_logits = logits};
  for (int n = 0; n < logits.batch(); ++n) {
    T* row = loss.d_logits.sample(n);
    const T highest = *std::max_element(row, row + classes);
    T sum = 0;
    for (int c = 0; c < classes; ++c) sum += std::exp(row[c] - highest);
    const T log_sum = highest + std::log(sum);
    loss.value += static_cast<double>((log_sum - row[labels[n]]) * share);
    for (int c = 0; c < classes; ++c) {
      const T probability = std::exp(row[c] - log_sum);
      row[c] = (probability - (c == labels[n] ? 1 : 0)) * share;
    }
  }
  return loss;
}

template <typename T>
int CountCorrect(const Tensor<T>& logits, absl::Span<const int> labels) {
  CheckLabels(logits, labels);
  const int classes = logits.shape().size();
  int correct = 0;
  for (int n = 0; n < logits.batch(); ++n) {
    const T* row = logits.sample(n);
    correct += std::max_element(row, row + classes) - row == labels[n];
  }
  return correct;
}

template Loss<float> SoftmaxCrossEntropy(const Tensor<float>&,
                                         absl::Span<const int>, int64_t);
template Loss<double> SoftmaxCrossEntropy(const Tensor<double>&,
                                          absl::Span<const int>, int64_t);
template int CountCorrect(const Tensor<float>&, absl::Span<const int>);
template int CountCorrect(const Tensor<double>&, absl::Span<const int>);

}  // namespace lockstep::digits
