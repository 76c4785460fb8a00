// Joins the rows of a domain: the block between the convolutions, which are cut
// over rows, and the dense layers, which all ranks compute alike.
//
// Its output is one value that all ranks hold, whose gradient they hold too: so
// the gradient of a rank's rows is those rows of it.

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
