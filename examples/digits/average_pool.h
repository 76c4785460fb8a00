// The mean of each 2x2 square: height and width are halved.
//
// A mean is smooth, unlike a maximum: two runs that add in different orders
// differ only by rounding.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_AVERAGE_POOL_H_
#define LOCKSTEP_EXAMPLES_DIGITS_AVERAGE_POOL_H_

#include <string>

#include "examples/digits/block.h"

namespace lockstep::digits {

template <typename T>
class AveragePool : public Block<T> {
 public:
  // Height and width must be even.
  AveragePool(std::string name, Shape input);

  // Saves nothing.
  Tensor<T> Forward(Tensor<T> input, Tensor<T>* saved) const override;
  Tensor<T> BackwardInput(const Tensor<T>& d_output,
                          const Tensor<T>& saved) const override;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_AVERAGE_POOL_H_
