// Shared by the kernel tests: random rows with all kinds of values, a bitwise
// comparison, and every CPU target that this machine can execute.

#ifndef LOCKSTEP_TESTS_KERNELS_KERNEL_TESTING_H_
#define LOCKSTEP_TESTS_KERNELS_KERNEL_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/any_element.h"
#include "kernels/half.h"
#include "kernels/targets.h"
#include "lockstep/dtype.h"

// After kernels/targets.h, which selects the targets.
#include "hwy/targets.h"

namespace lockstep::kernels {

using FloatTypes = testing::Types<F16, BF16, float, double>;
using AllTypes = testing::Types<uint8_t, int8_t, int32_t, uint32_t, int64_t,
                                uint64_t, F16, BF16, float, double>;
// The dtypes that a Communicator does not have, and all but the complex ones.
using OtherTypes = testing::Types<int16_t, uint16_t, Bool, Complex<float>,
                                  Complex<double>, F8E4M3, F8E5M2>;
using OrderedTypes = testing::Types<uint8_t, int8_t, int32_t, uint32_t, int64_t,
                                    uint64_t, F16, BF16, float, double, int16_t,
                                    uint16_t, Bool, F8E4M3, F8E5M2>;

template <class T>
inline constexpr bool kIsFloat = kIsHalf<T> || std::is_floating_point_v<T>;

template <class T>
constexpr DType DTypeOf() {
  if constexpr (std::is_same_v<T, uint8_t>) return DType::kU8;
  if constexpr (std::is_same_v<T, int8_t>) return DType::kI8;
  if constexpr (std::is_same_v<T, int32_t>) return DType::kI32;
  if constexpr (std::is_same_v<T, uint32_t>) return DType::kU32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::kI64;
  if constexpr (std::is_same_v<T, uint64_t>) return DType::kU64;
  if constexpr (std::is_same_v<T, F16>) return DType::kF16;
  if constexpr (std::is_same_v<T, BF16>) return DType::kBF16;
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  if constexpr (std::is_same_v<T, int16_t>) return DType::kI16;
  if constexpr (std::is_same_v<T, uint16_t>) return DType::kU16;
  if constexpr (std::is_same_v<T, Bool>) return DType::kBool;
  if constexpr (std::is_same_v<T, Complex<float>>) return DType::kC64;
  if constexpr (std::is_same_v<T, Complex<double>>) return DType::kC128;
  if constexpr (std::is_same_v<T, F8E4M3>) return DType::kF8E4M3;
  if constexpr (std::is_same_v<T, F8E5M2>) return DType::kF8E5M2;
}

// A small whole number as T: exact in all ten types up to 127.
template <class T>
T Whole(int value) {
  if constexpr (kIsFloat<T>) {
    return ConvertTo<T>(static_cast<double>(value));
  } else {
    return static_cast<T>(value);
  }
}

using Rng = std::mt19937_64;

// Half of the values are arbitrary bits (with infinities, NaN and subnormals),
// half have the magnitude of gradients.
template <class T>
T RandomValue(Rng& rng) {
  if constexpr (kIsComplex<T>) {
    return {RandomValue<Share<T>>(rng), RandomValue<Share<T>>(rng)};
  }
  if (std::is_same_v<T, Bool> && rng() % 2 == 0) return T{};
  const uint64_t bits = rng();
  if (kIsFloat<T> && rng() % 2 == 0) {
    if constexpr (kIsFloat<T>) {
      return ConvertTo<T>(static_cast<double>(static_cast<int64_t>(bits)) *
                          0x1p-63);
    }
  }
  T value;
  std::memcpy(&value, &bits, std::min(sizeof(value), sizeof(bits)));
  return value;
}

template <class T>
std::vector<T> RandomRow(Rng& rng, size_t count) {
  std::vector<T> row(count);
  for (T& value : row) value = RandomValue<T>(rng);
  return row;
}

template <class T>
uint64_t RawBits(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  return bits;
}

template <class T>
bool IsNaN(T value) {
  if constexpr (kIsFloat<T>) {
    const double wide = ConvertTo<double>(value);
    return wide != wide;
  } else if constexpr (kIsF8<T>) {
    return ToF32(value) != ToF32(value);
  } else {
    return false;
  }
}

// Equal bits; any NaN equals any NaN, because arithmetic leaves its payload
// open.
template <class T>
testing::AssertionResult SameBits(std::span<const T> got,
                                  std::span<const T> want) {
  if (got.size() != want.size()) {
    return testing::AssertionFailure()
           << got.size() << " elements, not " << want.size();
  }
  for (size_t i = 0; i < got.size(); ++i) {
    if (RawBits(got[i]) == RawBits(want[i])) continue;
    if (IsNaN(got[i]) && IsNaN(want[i])) continue;
    return testing::AssertionFailure()
           << "element " << i << " of " << got.size() << " has bits "
           << std::hex << RawBits(got[i]) << ", not " << RawBits(want[i]);
  }
  return testing::AssertionSuccess();
}

// Compares the parts of complex numbers.
template <class R>
testing::AssertionResult SameBits(std::span<const Complex<R>> got,
                                  std::span<const Complex<R>> want) {
  const auto parts = [](std::span<const Complex<R>> row) {
    return std::span(reinterpret_cast<const R*>(row.data()), 2 * row.size());
  };
  return SameBits<R>(parts(got), parts(want));
}

template <class T>
testing::AssertionResult SameBits(const std::vector<T>& got,
                                  const std::vector<T>& want) {
  return SameBits(std::span<const T>(got), std::span<const T>(want));
}

// Runs `test` once for each CPU target that is compiled and that this machine
// can execute.
template <class F>
void OnEveryCpu(F&& test) {
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
    test();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_TESTS_KERNELS_KERNEL_TESTING_H_
