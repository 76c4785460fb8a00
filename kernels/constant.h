// A constant as an element of any type: what is beyond the edge of a field.

#ifndef LOCKSTEP_KERNELS_CONSTANT_H_
#define LOCKSTEP_KERNELS_CONSTANT_H_

#include <cstddef>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

// Writes SizeOf(dtype) bytes: `value` as one element, rounded once to nearest
// even; f8 from the nearest f32, saturated as ToF8 does. Integers, and bools of
// 0 and 1, must be exact. Complex numbers have no imaginary part.
void WriteConstant(double value, DType dtype, std::byte* element);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_CONSTANT_H_
