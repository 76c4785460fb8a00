// Elements of all dtypes from and to numbers.

#ifndef LOCKSTEP_TESTS_CONFORMANCE_CASES_ELEMENT_TEXT_H_
#define LOCKSTEP_TESTS_CONFORMANCE_CASES_ELEMENT_TEXT_H_

#include <complex>
#include <cstddef>
#include <string>

#include "lockstep/dtype.h"

namespace lockstep::conformance {

// The number as an element; integers outside of f64's exact range are stored
// with StoreInteger.
void StoreNumber(DType dtype, std::complex<double> value, std::byte* to);
void StoreInteger(DType dtype, uint64_t bits, std::byte* to);

std::complex<double> NumberOf(DType dtype, const std::byte* element);

// Equal bits or both NaN; with a tolerance above 0 also numbers whose
// difference is at most tolerance * max(1, |wanted|).
bool IsNear(DType dtype, const std::byte* got, const std::byte* wanted,
            double tolerance);

std::string ElementText(DType dtype, const std::byte* element);

}  // namespace lockstep::conformance

#endif  // LOCKSTEP_TESTS_CONFORMANCE_CASES_ELEMENT_TEXT_H_
