// Random numbers that depend only on a seed, a name and an index.
//
// A Dice is a function without state: the i-th number is computed from i only.
// So the initial values of a parameter do not depend on the rank that builds
// it, nor on what was built before. Integer arithmetic and one exact division
// make the numbers equal on every platform.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_RANDOM_H_
#define LOCKSTEP_EXAMPLES_DIGITS_RANDOM_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace lockstep::digits {

class Dice {
 public:
  // Dice of different names or seeds are independent.
  Dice(uint64_t seed, absl::string_view name);

  // 64 random bits.
  uint64_t Bits(uint64_t index) const;

  // A multiple of 2^-53 in [0, 1).
  double Uniform(uint64_t index) const;

 private:
  uint64_t key_;
};

// A permutation of the numbers 0 .. size-1, determined by `dice`.
std::vector<int> Permutation(const Dice& dice, int size);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_RANDOM_H_
