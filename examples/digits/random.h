// Chance that depends on nothing but a seed, a name and a number.
//
// A Dice is a function, not a state: the i-th throw is computed from i alone.
// So a parameter starts with the same bits whichever rank builds it, and
// whatever else was built before it. Integer arithmetic and one exact division
// make the throws equal on every platform.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_RANDOM_H_
#define LOCKSTEP_EXAMPLES_DIGITS_RANDOM_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace lockstep::digits {

class Dice {
 public:
  // Dice of different names are independent, as are those of different seeds.
  Dice(uint64_t seed, absl::string_view name);

  // 64 fair bits.
  uint64_t Bits(uint64_t index) const;

  // A multiple of 2^-53 in [0, 1).
  double Uniform(uint64_t index) const;

 private:
  uint64_t key_;
};

// The numbers 0 .. size-1 in an order that `dice` chooses.
std::vector<int> Permutation(const Dice& dice, int size);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_RANDOM_H_
