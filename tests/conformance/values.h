// Buffers of any dtype for tests: filled from a seed, compared bit by bit, and
// reduced by the kernels' reference.

#ifndef LOCKSTEP_TESTS_CONFORMANCE_VALUES_H_
#define LOCKSTEP_TESTS_CONFORMANCE_VALUES_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/half.h"
#include "kernels/reduce_ref.h"
#include "lockstep/dtype.h"
#include "tests/support/recycled_memory.h"

namespace lockstep::conformance {

// How elements are drawn.
enum class Draw {
  kExact,  // 1 or 2: every reduction of 8 of them is exact in every dtype
  kWild,   // any integer; floats of both signs and many magnitudes
};

class Values {
 public:
  Values() = default;
  // All zeros.
  Values(DType dtype, size_t count)
      : dtype_(dtype), count_(count), bytes_(count * SizeOf(dtype)) {}
  Values(DType dtype, size_t count, Draw draw, uint64_t seed)
      : Values(dtype, count) {
    Source random(seed);
    kernels::WithType(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (size_t i = 0; i < count; ++i) {
        Set(i, draw == Draw::kExact ? From<T>(1.0 + random() % 2)
                                    : Wild<T>(random));
      }
    });
  }

  DType dtype() const { return dtype_; }
  size_t count() const { return count_; }
  size_t bytes() const { return bytes_.size(); }

  // Never null, so that only the tests of null pointers pass null.
  void* data() { return count_ == 0 ? Nowhere() : bytes_.data(); }
  const void* data() const { return const_cast<Values*>(this)->data(); }
  std::byte* at(size_t index) { return bytes_.data() + index * SizeOf(dtype_); }
  const std::byte* at(size_t index) const {
    return bytes_.data() + index * SizeOf(dtype_);
  }

  template <typename T>
  void Set(size_t index, T value) {
    std::memcpy(at(index), &value, sizeof value);
  }
  template <typename T>
  T Get(size_t index) const {
    T value;
    std::memcpy(&value, at(index), sizeof value);
    return value;
  }

  // Elements [begin, begin + count).
  Values Part(size_t begin, size_t count) const {
    Values part(dtype_, count);
    if (count > 0) std::memcpy(part.data(), at(begin), part.bytes());
    return part;
  }
  void Put(size_t begin, const Values& part) {
    if (part.bytes() > 0) std::memcpy(at(begin), part.data(), part.bytes());
  }

  // By memcmp: a sanitizer checks it once, and a loop over bytes at each byte.
  friend bool operator==(const Values& a, const Values& b) {
    return a.dtype_ == b.dtype_ && a.bytes() == b.bytes() &&
           (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
  }

 private:
  template <typename T>
  static T From(double value) {
    if constexpr (kernels::kIsHalf<T>) {
      return kernels::ConvertTo<T>(value);
    } else {
      return static_cast<T>(value);
    }
  }
  // SplitMix64, which is fast: the tests draw tens of millions of values.
  class Source {
   public:
    explicit Source(uint64_t seed) : state_(seed) {}
    uint64_t operator()() {
      uint64_t z = (state_ += 0x9e3779b97f4a7c15);
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      return z ^ (z >> 31);
    }

   private:
    uint64_t state_;
  };

  template <typename T>
  static T Wild(Source& random) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(random());
    } else {
      const double fraction = static_cast<double>(random()) / 1e19 - 0.9;
      return From<T>(std::ldexp(fraction, static_cast<int>(random() % 12)));
    }
  }
  static void* Nowhere() {
    static std::max_align_t nowhere;
    return &nowhere;
  }

  DType dtype_ = DType::kU8;
  size_t count_ = 0;
  TestBuffer bytes_;
};

// Rank r's input of a collective with this seed.
inline Values Input(DType dtype, size_t count, Draw draw, uint64_t seed,
                    int rank) {
  return Values(dtype, count, draw, seed * 1000 + rank);
}

// The reduction of all ranks' Input, in rank order. `divisor`: that of a mean;
// 0: `size`.
inline Values Reduced(DType dtype, size_t count, Draw draw, uint64_t seed,
                      int size, ReduceOp op, int divisor = 0) {
  std::vector<Values> inputs;
  for (int rank = 0; rank < size; ++rank) {
    inputs.push_back(Input(dtype, count, draw, seed, rank));
  }
  Values out(dtype, count);
  kernels::WithType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<const T*> rows;
    for (const Values& input : inputs) {
      rows.push_back(static_cast<const T*>(input.data()));
    }
    kernels::ReduceRanksRef<T>(rows, static_cast<T*>(out.data()), count, op,
                               divisor);
  });
  return out;
}

inline std::vector<ReduceOp> OpsOf(DType dtype) {
  std::vector<ReduceOp> ops = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax,
                               ReduceOp::kProd};
  if (IsFloat(dtype)) ops.push_back(ReduceOp::kMean);
  return ops;
}

}  // namespace lockstep::conformance

#endif  // LOCKSTEP_TESTS_CONFORMANCE_VALUES_H_
