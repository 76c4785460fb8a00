// Element types and reduction operators. Depends on the standard library only:
// CUDA sources include this file.

#ifndef LOCKSTEP_DTYPE_H_
#define LOCKSTEP_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep {

// The values are part of the wire format and the journal: never renumber.
enum class DType : uint8_t {
  kU8 = 1,
  kI8 = 2,
  kI32 = 3,
  kU32 = 4,
  kI64 = 5,
  kU64 = 6,
  kF16 = 7,   // IEEE 754 binary16
  kBF16 = 8,  // the upper half of binary32
  kF32 = 9,
  kF64 = 10,
};

inline constexpr DType kAllDTypes[] = {
    DType::kU8,  DType::kI8,  DType::kI32,  DType::kU32, DType::kI64,
    DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

// How the values of all ranks of a group are reduced. Mean is the sum times
// 1/size, multiplied once in f32 (f64 for f64); floating point only.
enum class ReduceOp : uint8_t {
  kSum = 1,
  kMean = 2,
  kMin = 3,
  kMax = 4,
  kProd = 5
};

// Bytes of one element; 0 for an invalid value.
constexpr size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kU8:
    case DType::kI8: return 1;
    case DType::kF16:
    case DType::kBF16: return 2;
    case DType::kI32:
    case DType::kU32:
    case DType::kF32: return 4;
    case DType::kI64:
    case DType::kU64:
    case DType::kF64: return 8;
  }
  return 0;
}

constexpr bool IsFloat(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 ||
         dtype == DType::kF32 || dtype == DType::kF64;
}

// "f32", "bf16", "u8", ...; "?" for an invalid value.
constexpr std::string_view Name(DType dtype) {
  switch (dtype) {
    case DType::kU8: return "u8";
    case DType::kI8: return "i8";
    case DType::kI32: return "i32";
    case DType::kU32: return "u32";
    case DType::kI64: return "i64";
    case DType::kU64: return "u64";
    case DType::kF16: return "f16";
    case DType::kBF16: return "bf16";
    case DType::kF32: return "f32";
    case DType::kF64: return "f64";
  }
  return "?";
}

constexpr std::string_view Name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return "sum";
    case ReduceOp::kMean: return "mean";
    case ReduceOp::kMin: return "min";
    case ReduceOp::kMax: return "max";
    case ReduceOp::kProd: return "prod";
  }
  return "?";
}

constexpr std::optional<DType> ParseDType(std::string_view name) {
  for (DType dtype : kAllDTypes) {
    if (Name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

constexpr std::optional<ReduceOp> ParseReduceOp(std::string_view name) {
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin,
                      ReduceOp::kMax, ReduceOp::kProd}) {
    if (Name(op) == name) return op;
  }
  return std::nullopt;
}

}  // namespace lockstep

#endif  // LOCKSTEP_DTYPE_H_
