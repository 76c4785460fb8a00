// Whether the weights and the accuracy are what was promised.

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

// In f64 only the order of sums differs, by some 1e-16 of each: this leaves
// room for what hundreds of steps make of that.
inline constexpr double kLargestDifference = 1e-9;

// Prints what differs, and says whether it may.
bool IsTheSame(const Flags& flags, const Screen& screen, double difference);

// Prints what was read, and says whether that is enough.
bool ReadsEnough(const Flags& flags, double accuracy);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DEMO_JUDGEMENT_H_
