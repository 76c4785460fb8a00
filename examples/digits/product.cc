#include "examples/digits/product.h"

namespace lockstep::digits {
namespace {

// The sums of kLanes columns stay in registers during the whole traversal.
template <int kLanes, typename T>
void AddProductLanes(Walk outer, Walk inner, const T* a, const T* b, T* y) {
  T sum[kLanes];
  for (int j = 0; j < kLanes; ++j) sum[j] = y[j];
  for (int i = 0; i < outer.count; ++i) {
    const T* a_k = a + i * outer.a_stride;
    const T* b_k = b + i * outer.b_stride;
    for (int k = 0; k < inner.count; ++k) {
      for (int j = 0; j < kLanes; ++j) sum[j] += *a_k * b_k[j];
      a_k += inner.a_stride;
      b_k += inner.b_stride;
    }
  }
  for (int j = 0; j < kLanes; ++j) y[j] = sum[j];
}

}  // namespace

template <typename T>
void AddProduct(Walk outer, Walk inner, const T* a, const T* b, int columns,
                T* y) {
  int j = 0;
  for (; j + 16 <= columns; j += 16) {
    AddProductLanes<16>(outer, inner, a, b + j, y + j);
  }
  for (; j + 8 <= columns; j += 8) {
    AddProductLanes<8>(outer, inner, a, b + j, y + j);
  }
  for (; j < columns; ++j) {
    AddProductLanes<1>(outer, inner, a, b + j, y + j);
  }
}

template void AddProduct(Walk, Walk, const float*, const float*, int, float*);
template void AddProduct(Walk, Walk, const double*, const double*, int,
                         double*);

}  // namespace lockstep::digits
