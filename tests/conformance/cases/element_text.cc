#include "tests/conformance/cases/element_text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/f8.h"
#include "kernels/half.h"

namespace lockstep::conformance {
namespace {

template <typename T>
void Put(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
}

template <typename T>
T Take(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

bool IsNan(std::complex<double> value) {
  return std::isnan(value.real()) || std::isnan(value.imag());
}

}  // namespace

void StoreNumber(DType dtype, std::complex<double> value, std::byte* to) {
  const double real = value.real();
  const float narrow = static_cast<float>(real);
  switch (dtype) {
    case DType::kBool: return Put<uint8_t>(real != 0, to);
    case DType::kF16: return Put(kernels::ConvertTo<kernels::F16>(real), to);
    case DType::kBF16: return Put(kernels::ConvertTo<kernels::BF16>(real), to);
    case DType::kF32: return Put(narrow, to);
    case DType::kF64: return Put(real, to);
    case DType::kF8E4M3: return Put(kernels::ToF8E4M3(narrow), to);
    case DType::kF8E5M2: return Put(kernels::ToF8E5M2(narrow), to);
    case DType::kC64: return Put(std::complex<float>(value), to);
    case DType::kC128: return Put(value, to);
    default:
      return StoreInteger(
          dtype, static_cast<uint64_t>(static_cast<int64_t>(real)), to);
  }
}

void StoreInteger(DType dtype, uint64_t bits, std::byte* to) {
  // Little endian, as all supported machines are.
  std::memcpy(to, &bits, SizeOf(dtype));
}

std::complex<double> NumberOf(DType dtype, const std::byte* element) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8: return Take<uint8_t>(element);
    case DType::kI8: return Take<int8_t>(element);
    case DType::kU16: return Take<uint16_t>(element);
    case DType::kI16: return Take<int16_t>(element);
    case DType::kU32: return Take<uint32_t>(element);
    case DType::kI32: return Take<int32_t>(element);
    case DType::kU64: return static_cast<double>(Take<uint64_t>(element));
    case DType::kI64: return static_cast<double>(Take<int64_t>(element));
    case DType::kF16: return kernels::ToF32(Take<kernels::F16>(element));
    case DType::kBF16: return kernels::ToF32(Take<kernels::BF16>(element));
    case DType::kF32: return Take<float>(element);
    case DType::kF64: return Take<double>(element);
    case DType::kC64: return Take<std::complex<float>>(element);
    case DType::kC128: return Take<std::complex<double>>(element);
    case DType::kF8E4M3: return kernels::ToF32(Take<kernels::F8E4M3>(element));
    case DType::kF8E5M2: return kernels::ToF32(Take<kernels::F8E5M2>(element));
  }
  return 0;
}

bool IsNear(DType dtype, const std::byte* got, const std::byte* wanted,
            double tolerance) {
  if (std::memcmp(got, wanted, SizeOf(dtype)) == 0) return true;
  const std::complex<double> a = NumberOf(dtype, got);
  const std::complex<double> b = NumberOf(dtype, wanted);
  if (IsNan(a) || IsNan(b)) return IsNan(a) && IsNan(b);
  return tolerance > 0 &&
         std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
}

std::string ElementText(DType dtype, const std::byte* element) {
  switch (dtype) {
    case DType::kU64: return absl::StrCat(Take<uint64_t>(element));
    case DType::kI64: return absl::StrCat(Take<int64_t>(element));
    case DType::kC64:
    case DType::kC128: {
      const std::complex<double> value = NumberOf(dtype, element);
      return absl::StrCat("(", value.real(), ", ", value.imag(), ")");
    }
    default: return absl::StrCat(NumberOf(dtype, element).real());
  }
}

}  // namespace lockstep::conformance
