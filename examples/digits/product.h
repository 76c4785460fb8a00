// The inner loop of all blocks: adds the product of a vector and a matrix.
//
//   y[j] += sum over k of a[k] * B[k][j]
//
// where k iterates over two levels, so that a patch of an image need not be
// copied to become a vector:
//
//   for i in 0 .. outer.count      a += outer.a_stride,  B += outer.b_stride
//     for k in 0 .. inner.count      a += inner.a_stride,  B += inner.b_stride
//
// Numerics: each y[j] adds its terms sequentially, in the order of the
// iteration, without fused multiply-add. So the bits of the result do not
// depend on the distribution of columns over vector lanes, and adding two
// batches in sequence is the same as adding them together.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_PRODUCT_H_
#define LOCKSTEP_EXAMPLES_DIGITS_PRODUCT_H_

#include <cstddef>

namespace lockstep::digits {

struct Walk {
  int count;
  ptrdiff_t a_stride;
  ptrdiff_t b_stride;
};

// `y` has `columns` values and overlaps neither `a` nor `b`.
template <typename T>
void AddProduct(Walk outer, Walk inner, const T* a, const T* b, int columns,
                T* y);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_PRODUCT_H_
