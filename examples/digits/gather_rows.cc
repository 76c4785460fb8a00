#include "examples/digits/gather_rows.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lockstep::digits {

template <typename T>
Tensor<T> OwnRows(const Tensor<T>& images, int index, int size) {
  const auto [height, width, channels] = images.shape();
  Check(height % size == 0, "rows do not divide among the ranks of a domain");
  Tensor<T> rows(images.batch(), {height / size, width, channels});
  const int values = rows.shape().size();
  for (int n = 0; n < images.batch(); ++n) {
    std::copy_n(images.sample(n) + index * values, values, rows.sample(n));
  }
  return rows;
}

template <typename T>
GatherRows<T>::GatherRows(std::string name, Shape rows, RowDomain<T>* domain)
    : Block<T>(std::move(name), rows,
               {rows.height * domain->size(), rows.width, rows.channels}),
      domain_(*domain) {}

template <typename T>
Tensor<T> GatherRows<T>::Forward(Tensor<T> input, Tensor<T>*) const {
  this->CheckInput(input);
  return domain_.Gather(input);
}

template <typename T>
Tensor<T> GatherRows<T>::BackwardInput(const Tensor<T>& d_output,
                                       const Tensor<T>&) const {
  this->CheckOutput(d_output);
  return OwnRows(d_output, domain_.index(), domain_.size());
}

template class GatherRows<float>;
template class GatherRows<double>;
template Tensor<float> OwnRows(const Tensor<float>&, int, int);
template Tensor<double> OwnRows(const Tensor<double>&, int, int);

}  // namespace lockstep::digits
