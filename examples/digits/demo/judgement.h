// Compares weights and accuracy with what the demonstration promises.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_DEMO_JUDGEMENT_H_
#define LOCKSTEP_EXAMPLES_DIGITS_DEMO_JUDGEMENT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "examples/digits/demo/flags.h"
#include "examples/digits/demo/job_files.h"
#include "examples/digits/demo/screen.h"
#include "examples/digits/weights_file.h"

namespace lockstep::digits {

// Copies of the network: those of all replicas, and of the ranks of a domain.
inline int CopiesOf(const Flags& flags) {
  return flags.replicas() * flags.domain;
}

// The trained weights of a copy of the network, in the order of `order`, or if
// that is empty in the order of its ranks.
absl::StatusOr<std::vector<NamedWeights>> WeightsOfCopy(
    const Flags& flags, const JobFiles& files, int copy,
    absl::Span<const NamedWeights> order);

// The largest difference between weights of any two replicas, or of any replica
// and the one process.
absl::StatusOr<double> CompareReplicas(const Flags& flags,
                                       const JobFiles& files);
absl::StatusOr<double> CompareWithOneProcess(const Flags& flags,
                                             const JobFiles& files);

// In f64 only the order of sums differs, by a relative error of about 1e-16
// each. The tolerance allows for its growth over hundreds of steps.
inline constexpr double kLargestDifference = 1e-9;

// Prints the difference, and returns whether it is within the tolerance.
bool IsTheSame(const Flags& flags, const Screen& screen, double difference);

// Prints the bytes that each kind of lane moved, and returns whether those that
// the mesh needs have moved some.
bool MovedAll(const Flags& flags, const Screen& screen);

// Prints the accuracy, and returns whether it is sufficient.
bool ReadsEnough(const Flags& flags, double accuracy);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DEMO_JUDGEMENT_H_
