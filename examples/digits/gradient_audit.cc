#include "examples/digits/gradient_audit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "examples/digits/wire_bound.h"

namespace lockstep::digits {

template <typename T>
GradientAudit<T>::GradientAudit(const BucketPolicy& buckets, int ranks,
                                const Recipe& recipe,
                                const TrainingSet& training_set,
                                SamplesOfRank samples)
    : buckets_(buckets),
      ranks_(ranks),
      samples_(std::move(samples)),
      copy_(DigitsNetwork<T>(recipe.seed)),
      trainer_(copy_, recipe, training_set,
               [this](int64_t step) { return samples_(step, computed_); }, {}),
      carried_(ranks) {
  for (auto& of_rank : carried_) {
    for (const Parameter<T>* parameter : copy_.parameters()) {
      of_rank.emplace_back(parameter->size());
    }
  }
}

template <typename T>
absl::Status GradientAudit<T>::Check(int64_t step, const Network<T>& network) {
  const std::vector<Gradients> gradients = Compute(step, network);
  for (size_t p = 0; p < network.parameters().size(); ++p) {
    const Parameter<T>& parameter = *network.parameters()[p];
    const auto [offset, count] = parameter.part();
    for (size_t i = offset; i < offset + count; ++i) {
      const absl::Status same =
          Compare(p, i, parameter.gradient()[i], gradients);
      if (same.ok()) continue;
      return absl::InternalError(
          absl::StrFormat("step %d, element %d of %s: %s", step, i,
                          parameter.name(), same.message()));
    }
  }
  return absl::OkStatus();
}

template <typename T>
auto GradientAudit<T>::Compute(int64_t step, const Network<T>& network)
    -> std::vector<Gradients> {
  for (size_t p = 0; p < copy_.parameters().size(); ++p) {
    const auto value = std::as_const(*network.parameters()[p]).value();
    std::copy(value.begin(), value.end(),
              copy_.parameters()[p]->value().begin());
  }
  std::vector<Gradients> gradients(ranks_);
  for (computed_ = 0; computed_ < ranks_; ++computed_) {
    trainer_.ComputeGradients(step).IgnoreError();  // no hook can fail
    for (const Parameter<T>* parameter : copy_.parameters()) {
      const absl::Span<const T> gradient = parameter->gradient();
      gradients[computed_].emplace_back(gradient.begin(), gradient.end());
    }
  }
  return gradients;
}

template <typename T>
absl::Status GradientAudit<T>::Compare(
    size_t parameter, size_t element, double reduced,
    const std::vector<Gradients>& gradients) {
  WireBound bound(*buckets_.wire_dtype,
                  sizeof(T) == sizeof(double) ? DType::kF64 : DType::kF32,
                  ranks_);
  for (int rank = 0; rank < ranks_; ++rank) {
    double& carried = carried_[rank][parameter][element];
    const double next = bound.Add(gradients[rank][parameter][element], carried);
    if (buckets_.error_feedback) carried = next;
  }
  const double error = std::abs(reduced - bound.sum());
  worst_ = std::max(worst_, error / bound.error_max());
  if (error <= bound.error_max()) return absl::OkStatus();
  return absl::InternalError(absl::StrFormat(
      "the gradient is %g, and one process's is %g: halves explain %g, not %g",
      reduced, bound.sum(), bound.error_max(), error));
}

template class GradientAudit<float>;
template class GradientAudit<double>;

}  // namespace lockstep::digits
