// Compares weights and accuracy with what the demonstration promises.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_DEMO_JUDGEMENT_H_
#define LOCKSTEP_EXAMPLES_DIGITS_DEMO_JUDGEMENT_H_

#include "absl/status/statusor.h"
#include "examples/digits/demo/flags.h"
#include "examples/digits/demo/job_files.h"
#include "examples/digits/demo/screen.h"

namespace lockstep::digits {

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
