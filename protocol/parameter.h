// A parameter as a worker registers it. All ranks must agree on it.

#ifndef LOCKSTEP_PROTOCOL_PARAMETER_H_
#define LOCKSTEP_PROTOCOL_PARAMETER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/dtype.h"
#include "lockstep/mesh.h"

namespace lockstep {

// Bounds of one parameter, so that sums over all of them fit in 64 bits and a
// name fits in a message.
inline constexpr int64_t kParameterBytesMax = int64_t{1} << 40;
inline constexpr size_t kParameterNameBytesMax = 1024;

struct Parameter {
  // Unique among a rank's parameters. UTF-8 without control characters.
  std::string name;
  std::vector<int64_t> shape;     // of the gradient; {} is a scalar
  DType dtype = DType::kF32;      // a float type
  ReduceOp op = ReduceOp::kMean;  // kSum or kMean

  // The gradient is reduced over the ranks that differ only in these mesh axes,
  // in any order. Empty: over the whole world.
  std::vector<std::string> axes;

  // Mesh axes (beyond `axes`) along which other ranks have a replica of the
  // parameter: only the lowest of them counts it in the global norm.
  std::vector<std::string> replicated_over;

  // The stage of the job's pipeline whose backward passes produce the gradient.
  // The gradient is complete, and can be reduced, after the last of them. -1:
  // none, or several stages of one rank.
  int stage = -1;

  bool operator==(const Parameter&) const = default;
};

// The product of the shape; 1 for a scalar. The parameter must be valid.
int64_t ElementsOf(const Parameter& parameter);

// "[128,64] f32 mean over data", for messages: everything but the name, so
// different parameters have different texts.
std::string Describe(const Parameter& parameter);

// InvalidArgument names the parameter, the malformed field and its value.
// Checks what a single rank can check, before ranks are compared.
absl::Status Validate(const Parameter& parameter, const Mesh& mesh);

}  // namespace lockstep

#endif  // LOCKSTEP_PROTOCOL_PARAMETER_H_
