// How far a sum of gradients that travelled as halves can be from the exact
// one.
//
//   rank 0   g ─ (+) e ─ round ─▶ c ─┐
//   rank 1   g ─ (+) e ─ round ─▶ c ─┼─ sum in f32 ─ round ─▶ s ≈ sum of all g
//   ...              └── next e ◀─┘  │
//
// Rounding a number x to a half moves it by at most u |x| + h: u is half the
// distance from 1 to the next number of the type, h half its smallest number. e
// is what error feedback brings from the step before, 0 without it, and no
// larger than E. So with p = |g| + E of a rank, and n ranks,
//
//   |c - g| <= u p + h + E            |c| <= C = (1 + u) p + h
//   |s - sum of g| <= sum of (u p + h + E) + (f + u (1 + f)) sum of C + h
//   next E = u p + h
//
// where f = (n - 1) 2^-24 / (1 - (n - 1) 2^-24) is what adding n numbers in f32
// can do. With f64 gradients nothing else is rounded that counts; in f32, g (+)
// e is, which u then has 2^-24 for. Without feedback and to first order the
// bound is 2 u times the sum of the ranks' absolute gradients.
//
// All of this is of one element; a step's is worth the same whatever the steps
// before it were, as long as the ranks' parameters are equal.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_WIRE_BOUND_H_
#define LOCKSTEP_EXAMPLES_DIGITS_WIRE_BOUND_H_

#include "lockstep/dtype.h"

namespace lockstep::digits {

// The rounding bound of one element's sum over ranks. Fill it with every rank's
// gradient.
class WireBound {
 public:
  // `wire` is a half, `gradients` f32 or f64.
  WireBound(DType wire, DType gradients, int ranks);

  // A rank's gradient; `carried` bounds what feedback adds to it (E). Returns
  // the next E.
  double Add(double gradient, double carried);

  // The exact sum, and how far the one that travelled can be from it.
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
