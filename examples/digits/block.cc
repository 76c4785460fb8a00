#include "examples/digits/block.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "examples/digits/random.h"

namespace lockstep::digits {
namespace {

void CheckShape(const std::string& block, absl::string_view what,
                const Shape& given, const Shape& made_for) {
  if (given == made_for) return;
  Fatal(absl::StrCat(block, ": ", what, " is ", ToString(given),
                     ", the block was made for ", ToString(made_for))
            .c_str());
}

}  // namespace

template <typename T>
void Block<T>::CheckInput(const Tensor<T>& input) const {
  CheckShape(name_, "the input", input.shape(), input_shape_);
}

template <typename T>
void Block<T>::CheckOutput(const Tensor<T>& d_output) const {
  CheckShape(name_, "the output's gradient", d_output.shape(), output_shape_);
}

template <typename T>
void Block<T>::CheckSaved(const Tensor<T>& d_output,
                          const Tensor<T>& saved) const {
  if (d_output.batch() == saved.batch()) return;
  Fatal(absl::StrCat(name_, ": ", saved.batch(), " samples went forward, ",
                     d_output.batch(), " come back")
            .c_str());
}

template <typename T>
void Initialise(uint64_t seed, int fan_in, Parameter<T>* weight) {
  const Dice dice(seed, weight->name());
  const double limit = std::sqrt(6.0 / fan_in);
  uint64_t index = 0;
  for (T& value : weight->value()) {
    value = static_cast<T>(limit * (2 * dice.Uniform(index++) - 1));
  }
}

template class Block<float>;
template class Block<double>;
template void Initialise(uint64_t, int, Parameter<float>*);
template void Initialise(uint64_t, int, Parameter<double>*);

}  // namespace lockstep::digits
