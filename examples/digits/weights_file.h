// Weights as text, to compare two trainings.
//
//   conv1.weight 144        a parameter: its name, how many values follow
//   -0.32850753922371001    17 digits: a double comes back with the same bits
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

// Replaces the file. Internal if it cannot be written.
absl::Status WriteWeights(const std::string& path,
                          absl::Span<const NamedWeights> weights);

// Errors: NotFound if the file cannot be read; InvalidArgument naming the line
// (from 1) that is not as in the picture.
absl::StatusOr<std::vector<NamedWeights>> ReadWeights(const std::string& path);

// The largest distance between two weights of the same name and place; infinite
// if one of them is not a number. InvalidArgument, naming the first difference,
// if the two do not hold the same parameters in the same order.
absl::StatusOr<double> LargestDifference(absl::Span<const NamedWeights> a,
                                         absl::Span<const NamedWeights> b);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_WEIGHTS_FILE_H_
