// Stochastic gradient descent with momentum and weight decay.
//
//   velocity = momentum * velocity + gradient + weight_decay * value
//   value    = value - learning_rate * velocity

#ifndef LOCKSTEP_EXAMPLES_DIGITS_SGD_H_
#define LOCKSTEP_EXAMPLES_DIGITS_SGD_H_

#include <vector>

#include "absl/types/span.h"
#include "examples/digits/parameter.h"

namespace lockstep::digits {

struct SgdOptions {
  double learning_rate = 0.04;
  double momentum = 0.9;
  double weight_decay = 1e-4;
};

// Updates this process's part of each parameter (Parameter::part), and has
// velocities for these parts only.
//
// Every value is computed from its own gradient and velocity only, so equal
// gradients give equal weights, bit for bit, on all ranks.
template <typename T>
class Sgd {
 public:
  // The parameters must outlive the optimizer. Velocities start at 0.
  Sgd(SgdOptions options, std::vector<Parameter<T>*> parameters);

  // Applies one update from the current gradients.
  void Update();

  // The velocity of the i-th parameter's part; a checkpoint must include it.
  absl::Span<T> velocity(size_t i) { return absl::MakeSpan(velocities_[i]); }

 private:
  const SgdOptions options_;
  const std::vector<Parameter<T>*> parameters_;
  std::vector<std::vector<T>> velocities_;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_SGD_H_
