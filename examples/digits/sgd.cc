#include "examples/digits/sgd.h"

#include <utility>

namespace lockstep::digits {

template <typename T>
Sgd<T>::Sgd(SgdOptions options, std::vector<Parameter<T>*> parameters)
    : options_(options), parameters_(std::move(parameters)) {
  for (const Parameter<T>* parameter : parameters_) {
    velocities_.emplace_back(parameter->part().count);
  }
}

template <typename T>
void Sgd<T>::Update() {
  const T momentum = static_cast<T>(options_.momentum);
  const T weight_decay = static_cast<T>(options_.weight_decay);
  const T learning_rate = static_cast<T>(options_.learning_rate);
  for (size_t p = 0; p < parameters_.size(); ++p) {
    const auto [offset, count] = parameters_[p]->part();
    const absl::Span<T> value = parameters_[p]->value().subspan(offset, count);
    const absl::Span<const T> gradient =
        parameters_[p]->gradient().subspan(offset, count);
    std::vector<T>& velocity = velocities_[p];
    for (size_t i = 0; i < velocity.size(); ++i) {
      velocity[i] =
          momentum * velocity[i] + (gradient[i] + weight_decay * value[i]);
      value[i] -= learning_rate * velocity[i];
    }
  }
}

template class Sgd<float>;
template class Sgd<double>;

}  // namespace lockstep::digits
