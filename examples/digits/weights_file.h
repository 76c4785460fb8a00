// Weights as text, for comparing two trainings.
//
//   conv1.weight 144        a parameter: its name, the number of its values
//   -0.32850753922371001    17 digits: reading restores the same bits
//   ...

#ifndef LOCKSTEP_EXAMPLES_DIGITS_WEIGHTS_FILE_H_
#define LOCKSTEP_EXAMPLES_DIGITS_WEIGHTS_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "examples/digits/parameter.h"

namespace lockstep::digits {

struct NamedWeights {
  std::string name;
  std::vector<double> values;
};

template <typename T>
std::vector<NamedWeights> Snapshot(absl::Span<Parameter<T>* const> parameters);

// Replaces the file. Internal on write errors.
absl::Status WriteWeights(const std::string& path,
                          absl::Span<const NamedWeights> weights);

// Errors: NotFound if the file cannot be read; InvalidArgument names the first
// line (from 1) with a format error.
absl::StatusOr<std::vector<NamedWeights>> ReadWeights(const std::string& path);

// The largest difference between corresponding weights; infinite if one of them
// is NaN. InvalidArgument names the first mismatch if the two do not have the
// same parameters in the same order.
absl::StatusOr<double> LargestDifference(absl::Span<const NamedWeights> a,
                                         absl::Span<const NamedWeights> b);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_WEIGHTS_FILE_H_
