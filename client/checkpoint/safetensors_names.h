// The names of dtypes in safetensors files.

#ifndef LOCKSTEP_CLIENT_CHECKPOINT_SAFETENSORS_NAMES_H_
#define LOCKSTEP_CLIENT_CHECKPOINT_SAFETENSORS_NAMES_H_

#include <string_view>

#include "lockstep/dtype.h"

namespace lockstep::checkpoint {

struct NamedDType {
  DType dtype;
  std::string_view name;
};

inline constexpr NamedDType kNamedDTypes[] = {
    {DType::kBool, "BOOL"},      {DType::kU8, "U8"},
    {DType::kI8, "I8"},          {DType::kF8E5M2, "F8_E5M2"},
    {DType::kF8E4M3, "F8_E4M3"}, {DType::kI16, "I16"},
    {DType::kU16, "U16"},        {DType::kF16, "F16"},
    {DType::kBF16, "BF16"},      {DType::kI32, "I32"},
    {DType::kU32, "U32"},        {DType::kF32, "F32"},
    {DType::kF64, "F64"},        {DType::kI64, "I64"},
    {DType::kU64, "U64"},        {DType::kC64, "C64"},
};

// Names of the format that Lockstep has no dtype for.
inline constexpr std::string_view kForeignDTypes[] = {
    "F4", "F6_E2M3", "F6_E3M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"};

}  // namespace lockstep::checkpoint

#endif  // LOCKSTEP_CLIENT_CHECKPOINT_SAFETENSORS_NAMES_H_
