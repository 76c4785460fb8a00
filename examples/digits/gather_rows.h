// Joins the rows of a domain: the block between the convolutions, which are cut
// over rows, and the dense layers, which all ranks compute alike.
//
// All ranks compute the same from the output, and so the same gradient of it.
// The gradient of a rank's input is the rank's rows of that gradient.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_GATHER_ROWS_H_
#define LOCKSTEP_EXAMPLES_DIGITS_GATHER_ROWS_H_

#include <string>

#include "examples/digits/block.h"
#include "examples/digits/row_domain.h"

namespace lockstep::digits {

template <typename T>
class GatherRows : public Block<T> {
 public:
  // `rows`: the shape of this rank's rows. `domain` outlives the block.
  GatherRows(std::string name, Shape rows, RowDomain<T>* domain);

  // Saves nothing.
  Tensor<T> Forward(Tensor<T> input, Tensor<T>* saved) const override;
  Tensor<T> BackwardInput(const Tensor<T>& d_output,
                          const Tensor<T>& saved) const override;

 private:
  RowDomain<T>& domain_;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_GATHER_ROWS_H_
