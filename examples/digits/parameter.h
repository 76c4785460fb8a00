// A named array of weights, and the place where its gradient gathers.
//
// The gradient lives in memory of the parameter's own until BindGradient points
// it elsewhere: into a bucket, say, from which an all-reduce reads and into
// which it writes without a copy.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_PARAMETER_H_
#define LOCKSTEP_EXAMPLES_DIGITS_PARAMETER_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace lockstep::digits {

// Threads: none of its own; its block and its optimizer write in turn.
template <typename T>
class Parameter {
 public:
  // Values and gradient are zeros.
  Parameter(std::string name, std::vector<int64_t> shape)
      : name_(std::move(name)), shape_(std::move(shape)) {
    size_t size = 1;
    for (int64_t extent : shape_) size *= extent;
    value_.resize(size);
    own_gradient_.resize(size);
    gradient_ = own_gradient_.data();
  }
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  // "conv1.weight": the same on every rank that holds it.
  const std::string& name() const { return name_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  size_t size() const { return value_.size(); }

  absl::Span<T> value() { return absl::MakeSpan(value_); }
  absl::Span<const T> value() const { return value_; }
  absl::Span<T> gradient() { return {gradient_, size()}; }
  absl::Span<const T> gradient() const { return {gradient_, size()}; }

  // From now on the gradient is these size() values, as they are; the memory
  // stays the caller's and must outlive the parameter or the next binding.
  void BindGradient(T* memory) {
    gradient_ = memory;
    own_gradient_ = {};
  }

  void ZeroGradient() { std::fill_n(gradient_, size(), T{0}); }

 private:
  const std::string name_;
  const std::vector<int64_t> shape_;
  std::vector<T> value_;
  std::vector<T> own_gradient_;
  T* gradient_;
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_PARAMETER_H_
