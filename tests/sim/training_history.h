// What simulated training computes: instead of numbers, the samples that a sum
// is of, so that partial sums, sums of two steps and samples that count twice
// are visible.

#ifndef LOCKSTEP_TESTS_SIM_TRAINING_HISTORY_H_
#define LOCKSTEP_TESTS_SIM_TRAINING_HISTORY_H_

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::sim {

// The gradient of one sample.
struct Contribution {
  int64_t sample = 0;
  uint64_t program_step = 0;
  uint64_t epoch = 0;
  uint64_t job_step = 0;
  // The state that the step itself changes (a random number generator), as it
  // was when the step began: the number of the program's step.
  int64_t scoped = 0;
  auto operator<=>(const Contribution&) const = default;
};

// A sum of gradients.
using Contributions = std::vector<Contribution>;

// One applied step.
struct Update {
  uint64_t program_step = 0;
  uint64_t job_step = 0;
  uint64_t epoch = 0;                    // whose verdict let it pass
  double samples = 0;                    // as the verdict counts them
  std::string verdict;                   // its bytes
  std::vector<Contributions> gradients;  // by parameter; sorted
  bool operator==(const Update&) const = default;
};

// The state of the training: all updates, in order.
using Model = std::vector<Update>;

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_TRAINING_HISTORY_H_
