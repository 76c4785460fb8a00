// A parameter as a worker registers it, and as all ranks must agree on it.

#ifndef LOCKSTEP_PLAN_WORDS_PARAMETER_H_
#define LOCKSTEP_PLAN_WORDS_PARAMETER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/dtype.h"

namespace lockstep {

struct Parameter {
  std::string name;               // unique among a rank's parameters
  std::vector<int64_t> shape;     // of the gradient; {} is a scalar
  DType dtype = DType::kF32;      // a float type
  ReduceOp op = ReduceOp::kMean;  // kSum or kMean

  // The gradient is reduced over the ranks that differ only in these mesh axes.
  // Empty: over the whole world.
  std::vector<std::string> axes;

  // Mesh axes (beyond `axes`) along which other ranks hold the same logical
  // parameter: only coordinate 0 counts it in the global norm.
  std::vector<std::string> replicated_over;

  bool operator==(const Parameter&) const = default;
};

// The product of the shape; 1 for a scalar.
int64_t ElementsOf(const Parameter& parameter);

// "[128,64] f32 mean over data", for messages to people.
std::string Describe(const Parameter& parameter);

}  // namespace lockstep

#endif  // LOCKSTEP_PLAN_WORDS_PARAMETER_H_
