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
  // Those above are the dtypes of a Communicator, of plans and of messages to
  // the coordinator; those below only of named-axis collectives.
  kI16 = 11,
  kU16 = 12,
  kBool = 13,    // one byte, 0 or 1
  kC64 = 14,     // a complex number: two f32, the real part first
  kC128 = 15,    // two f64
  kF8E4M3 = 16,  // OCP FP8 E4M3: no infinity, 448 is the largest value
  kF8E5M2 = 17,  // OCP FP8 E5M2: the upper half of binary16
};

inline constexpr DType kAllDTypes[] = {
    DType::kU8,     DType::kI8,    DType::kI32,  DType::kU32, DType::kI64,
    DType::kU64,    DType::kF16,   DType::kBF16, DType::kF32, DType::kF64,
    DType::kI16,    DType::kU16,   DType::kBool, DType::kC64, DType::kC128,
    DType::kF8E4M3, DType::kF8E5M2};

// The dtypes of a Communicator.
inline constexpr DType kTransportDTypes[] = {
    DType::kU8,  DType::kI8,  DType::kI32,  DType::kU32, DType::kI64,
    DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
constexpr bool IsTransportDType(DType dtype) {
  return dtype >= DType::kU8 && dtype <= DType::kF64;
}

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
    case DType::kI8:
    case DType::kBool:
    case DType::kF8E4M3:
    case DType::kF8E5M2: return 1;
    case DType::kI16:
    case DType::kU16:
    case DType::kF16:
    case DType::kBF16: return 2;
    case DType::kI32:
    case DType::kU32:
    case DType::kF32: return 4;
    case DType::kI64:
    case DType::kU64:
    case DType::kF64:
    case DType::kC64: return 8;
    case DType::kC128: return 16;
  }
  return 0;
}

// The floating-point types of a Communicator.
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
    case DType::kI16: return "i16";
    case DType::kU16: return "u16";
    case DType::kBool: return "bool";
    case DType::kC64: return "c64";
    case DType::kC128: return "c128";
    case DType::kF8E4M3: return "f8e4m3";
    case DType::kF8E5M2: return "f8e5m2";
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
