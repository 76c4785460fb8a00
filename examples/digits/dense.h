// A dense layer: every output is a weighted sum of all inputs of its sample.
//
//   weight[in][out], bias[out], where in = height * width * channels

#ifndef LOCKSTEP_EXAMPLES_DIGITS_DENSE_H_
#define LOCKSTEP_EXAMPLES_DIGITS_DENSE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "examples/digits/block.h"

namespace lockstep::digits {

template <typename T>
class Dense : public Block<T> {
 public:
  Dense(std::string name, Shape input, int outputs, uint64_t seed);

  Tensor<T> Forward(Tensor<T> input, Tensor<T>* saved) const override;
  Tensor<T> BackwardInput(const Tensor<T>& d_output,
                          const Tensor<T>& saved) const override;
  void BackwardWeights(const Tensor<T>& d_output,
                       const Tensor<T>& saved) override;
  std::vector<Parameter<T>*> parameters() override {
    return {&weight_, &bias_};
  }

 private:
  Parameter<T> weight_;
  Parameter<T> bias_;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DENSE_H_
