// A 3x3 convolution with zero padding: keeps height and width.
//
//   weight[3][3][in][out], bias[out]; the arithmetic is in correlation.h.
//
// In a domain its images are a rank's rows, and the frame has the neighbours'.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_CONVOLUTION_H_
#define LOCKSTEP_EXAMPLES_DIGITS_CONVOLUTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "examples/digits/block.h"
#include "examples/digits/row_domain.h"

namespace lockstep::digits {

template <typename T>
class Convolution : public Block<T> {
 public:
  // `domain` may be null: the images are whole. It outlives the block.
  Convolution(std::string name, Shape input, int out_channels, uint64_t seed,
              RowDomain<T>* domain = nullptr);

  Tensor<T> Forward(Tensor<T> input, Tensor<T>* saved) const override;
  Tensor<T> BackwardInput(const Tensor<T>& d_output,
                          const Tensor<T>& saved) const override;
  void BackwardWeights(const Tensor<T>& d_output,
                       const Tensor<T>& saved) override;
  std::vector<Parameter<T>*> parameters() override {
    return {&weight_, &bias_};
  }

 private:
  RowDomain<T>* const domain_;
  Parameter<T> weight_;
  Parameter<T> bias_;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_CONVOLUTION_H_
