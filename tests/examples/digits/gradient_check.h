// Compares a gradient with central differences.

#ifndef LOCKSTEP_TESTS_EXAMPLES_DIGITS_GRADIENT_CHECK_H_
#define LOCKSTEP_TESTS_EXAMPLES_DIGITS_GRADIENT_CHECK_H_

#include <algorithm>
#include <cmath>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace lockstep::digits {

// The largest difference between gradient[i] and
//
//   (loss(variable[i] + h) - loss(variable[i] - h)) / 2h
//
// over every i, relative to the largest component of the gradient. `loss`
// reads the variable, which is restored afterwards.
inline double GradientError(absl::Span<double> variable,
                            absl::Span<const double> gradient,
                            absl::FunctionRef<double()> loss,
                            double h = 1.0 / 1024) {
  double largest = 0;
  double difference = 0;
  for (size_t i = 0; i < variable.size(); ++i) {
    const double here = variable[i];
    variable[i] = here + h;
    const double above = loss();
    variable[i] = here - h;
    const double below = loss();
    variable[i] = here;
    const double quotient = (above - below) / (2 * h);
    difference = std::max(difference, std::abs(gradient[i] - quotient));
    largest = std::max(largest, std::abs(gradient[i]));
  }
  return difference / largest;
}

}  // namespace lockstep::digits

#endif  // LOCKSTEP_TESTS_EXAMPLES_DIGITS_GRADIENT_CHECK_H_
