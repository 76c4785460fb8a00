// A parameter as a worker registers it, and as all ranks must agree on it.

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

  // Mesh axes (beyond `axes`) along which other ranks hold the same logical
  // parameter: only the lowest of them counts it in the global norm.
  std::vector<std::string> replicated_over;

  // The stage of the job's pipeline whose backward passes make the gradient: it
  // is complete, and may travel, with the last of them. -1: of none, or of
  // several that one rank has.
  int stage = -1;

  bool operator==(const Parameter&) const = default;
};

// The product of the shape; 1 for a scalar. The parameter must be valid.
int64_t ElementsOf(const Parameter& parameter);

// "[128,64] f32 mean over data", for messages to people: everything but the
// name, so two parameters that differ in anything else read differently.
std::string Describe(const Parameter& parameter);

// InvalidArgument names the parameter, the field that is malformed and its
// value: what any single rank can judge, before anybody compares.
absl::Status Validate(const Parameter& parameter, const Mesh& mesh);

}  // namespace lockstep

#endif  // LOCKSTEP_PROTOCOL_PARAMETER_H_
