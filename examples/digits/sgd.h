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

// Updates of each parameter the part that is this process's (Parameter::part),
// and has velocities of that alone.
//
// Every value is computed from its own gradient and velocity alone, so equal
// gradients keep equal weights equal, to the bit, on all ranks.
template <typename T>
class Sgd {
 public:
  // The parameters must outlive the optimizer. Velocities start at 0.
  Sgd(SgdOptions options, std::vector<Parameter<T>*> parameters);

  // One update from the gradients as they are now.
  void Update();

  // The velocity of the i-th parameter's part: state that a checkpoint must
  // hold.
  absl::Span<T> velocity(size_t i) { return absl::MakeSpan(velocities_[i]); }

 private:
  const SgdOptions options_;
  const std::vector<Parameter<T>*> parameters_;
  std::vector<std::vector<T>> velocities_;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_SGD_H_
