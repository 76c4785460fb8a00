// A batch of activations, the input and output of blocks.
//
//   value (n, y, x, c) is data[((n * height + y) * width + x) * channels + c]
//
// Channels vary fastest: the innermost loops of all blocks run over them, and
// a row of an image is contiguous. A vector of features has height = width = 1.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_TENSOR_H_
#define LOCKSTEP_EXAMPLES_DIGITS_TENSOR_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace lockstep::digits {

// The shape of one sample.
struct Shape {
  int height = 0;
  int width = 0;
  int channels = 0;

  int size() const { return height * width * channels; }
  friend bool operator==(const Shape&, const Shape&) = default;
};

inline std::string ToString(const Shape& shape) {
  return absl::StrCat(shape.height, "x", shape.width, "x", shape.channels);
}

template <typename T>
class Tensor {
 public:
  Tensor() = default;
  // Initialised to zero.
  Tensor(int batch, Shape shape)
      : batch_(batch),
        shape_(shape),
        data_(static_cast<size_t>(batch) * shape.size()) {}

  int batch() const { return batch_; }
  const Shape& shape() const { return shape_; }

  // One sample: shape().size() values.
  T* sample(int n) { return data_.data() + Offset(n); }
  const T* sample(int n) const { return data_.data() + Offset(n); }

  // The whole batch.
  absl::Span<T> values() { return absl::MakeSpan(data_); }
  absl::Span<const T> values() const { return data_; }

 private:
  size_t Offset(int n) const { return static_cast<size_t>(n) * shape_.size(); }

  int batch_ = 0;
  Shape shape_;
  std::vector<T> data_;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_TENSOR_H_
