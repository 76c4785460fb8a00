// A named array of weights, and the memory of its gradient.
//
// The parameter owns the gradient's memory until BindGradient binds other
// memory: for example a bucket, in which all-reduce reads and writes without a
// copy. The same holds for the value and BindValue, in jobs whose workers each
// update a part of it and gather the others.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_PARAMETER_H_
#define LOCKSTEP_EXAMPLES_DIGITS_PARAMETER_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace lockstep::digits {

// Threads: none of its own; its block and its optimizer write alternately.
template <typename T>
class Parameter {
 public:
  // Values and gradient are zero.
  Parameter(std::string name, std::vector<int64_t> shape)
      : name_(std::move(name)), shape_(std::move(shape)) {
    size_t size = 1;
    for (int64_t extent : shape_) size *= extent;
    own_value_.resize(size);
    own_gradient_.resize(size);
    value_ = own_value_.data();
    gradient_ = own_gradient_.data();
    part_ = {.offset = 0, .count = size};
  }
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  // "conv1.weight": the same on every rank that has it.
  const std::string& name() const { return name_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  size_t size() const { return own_value_.size(); }

  absl::Span<T> value() { return {value_, size()}; }
  absl::Span<const T> value() const { return {value_, size()}; }
  absl::Span<T> gradient() { return {gradient_, size()}; }
  absl::Span<const T> gradient() const { return {gradient_, size()}; }

  // From now on the gradient is in `memory`, size() values, unchanged. The
  // caller owns the memory, which must outlive the parameter or the next
  // binding.
  void BindGradient(T* memory) {
    gradient_ = memory;
    own_gradient_ = {};
  }

  // The elements that this process updates; initially all.
  struct Part {
    size_t offset = 0;
    size_t count = 0;
  };
  const Part& part() const { return part_; }

  // From now on the value is in `memory`, size() values, initialised with the
  // current value, and this process updates a part of it. The caller owns the
  // memory.
  void BindValue(T* memory, Part part) {
    value_ = std::copy_n(value_, size(), memory) - size();
    part_ = part;
  }
  // Copies the value back into the parameter's own memory.
  void UnbindValue() {
    std::copy_n(value_, size(), own_value_.data());
    value_ = own_value_.data();
  }

  void ZeroGradient() { std::fill_n(gradient_, size(), T{0}); }

 private:
  const std::string name_;
  const std::vector<int64_t> shape_;
  std::vector<T> own_value_;
  std::vector<T> own_gradient_;
  T* value_;
  T* gradient_;
  Part part_;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_PARAMETER_H_
