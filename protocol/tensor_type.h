// Text forms of tensor and activation types:
//
//   f32[4,128]           a tensor; f32[] is a scalar
//   f32[4,128]+i32[4]    an activation of two parts

#ifndef LOCKSTEP_PROTOCOL_TENSOR_TYPE_H_
#define LOCKSTEP_PROTOCOL_TENSOR_TYPE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "lockstep/tensor_type.h"

namespace lockstep {

std::string TypeText(const TensorType& type);
std::string TypeText(const Activation& activation);

// The inverse of TypeText. nullopt for anything else: an unknown dtype, a
// negative extent, a missing part, or a tensor of more than 1 TiB.
std::optional<TensorType> ParseTensorType(absl::string_view text);
std::optional<Activation> ParseActivation(absl::string_view text);

// Why the type cannot be sent: a dtype or extent out of range, or more than 1
// TiB; empty if it can.
std::string FaultOf(const TensorType& type);

// The type must have no fault.
int64_t ElementsOf(const TensorType& type);
int64_t BytesOf(const TensorType& type);
int64_t BytesOf(const Activation& activation);

// The floating-point parts: those that have a gradient.
Activation GradientOf(const Activation& activation);

}  // namespace lockstep

#endif  // LOCKSTEP_PROTOCOL_TENSOR_TYPE_H_
