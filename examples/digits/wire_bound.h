// The largest difference between a sum of gradients that were sent as halves
// and the exact sum.
//
//   rank 0   g ─ (+) e ─ round ─▶ c ─┐
//   rank 1   g ─ (+) e ─ round ─▶ c ─┼─ sum in f32 ─ round ─▶ s ≈ sum of all g
//   ...              └── next e ◀─┘  │
//
// Rounding a number x to a half changes it by at most u |x| + h: u is half the
// distance from 1 to the next number of the type, h half its smallest number. e
// is the residual of error feedback from the previous step, 0 without feedback,
// and at most E. So with p = |g| + E of a rank, and n ranks,
//
//   |c - g| <= u p + h + E            |c| <= C = (1 + u) p + h
//   |s - sum of g| <= sum of (u p + h + E) + (f + u (1 + f)) sum of C + h
//   next E = u p + h
//
// where f = (n - 1) 2^-24 / (1 - (n - 1) 2^-24) bounds the relative error of
// adding n numbers in f32. With f64 gradients no other rounding matters; in
// f32, g (+) e is rounded too, so u then includes 2^-24. Without feedback and
// to first order the bound is 2 u times the sum of the ranks' absolute
// gradients.
//
// All of this is for one element. It holds for every step, whatever the earlier
// steps were, as long as the ranks' parameters are equal.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_WIRE_BOUND_H_
#define LOCKSTEP_EXAMPLES_DIGITS_WIRE_BOUND_H_

#include "lockstep/dtype.h"

namespace lockstep::digits {

// The rounding bound for the sum of one element over ranks. Add every rank's
// gradient.
class WireBound {
 public:
  // `wire` is f16 or bf16, `gradients` f32 or f64.
  WireBound(DType wire, DType gradients, int ranks);

  // Adds a rank's gradient; `carried` bounds the residual that feedback adds to
  // it (E). Returns the next E.
  double Add(double gradient, double carried);

  // The exact sum, and the largest difference of the sum sent from it.
  double sum() const { return sum_; }
  double error_max() const;

 private:
  const double relative_;     // u
  const double absolute_;     // h
  const double of_addition_;  // f
  double sum_ = 0;
  double cast_errors_ = 0;
  double sent_ = 0;  // the sum of C
};

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_WIRE_BOUND_H_
