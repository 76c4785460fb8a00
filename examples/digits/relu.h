// max(0, x). Its slope at 0 is 0.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_RELU_H_
#define LOCKSTEP_EXAMPLES_DIGITS_RELU_H_

#include <string>

#include "examples/digits/block.h"

namespace lockstep::digits {

template <typename T>
class Relu : public Block<T> {
 public:
  Relu(std::string name, Shape shape);

  Tensor<T> Forward(Tensor<T> input, Tensor<T>* saved) const override;
  Tensor<T> BackwardInput(const Tensor<T>& d_output,
                          const Tensor<T>& saved) const override;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_RELU_H_
