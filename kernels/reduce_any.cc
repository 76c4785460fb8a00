#include "kernels/reduce_any.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/any_element.h"
#include "kernels/targets.h"
#include "kernels/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_any.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

template <class T>
HWY_INLINE void WidenRow(const T* src, Wide<T>* acc, size_t n) {
  if constexpr (std::is_same_v<T, Wide<T>>) {
    std::memcpy(acc, src, n * sizeof(T));
  } else {
    LOCKSTEP_EACH_ALONE
    for (size_t i = 0; i < n; ++i) acc[i] = ToWide(src[i]);
  }
}

template <class T, class F>
HWY_INLINE void CombineRow(const T* src, Wide<T>* acc, size_t n, F f) {
  LOCKSTEP_EACH_ALONE
  for (size_t i = 0; i < n; ++i) acc[i] = f(acc[i], ToWide(src[i]));
}

template <class T>
HWY_INLINE void RoundRow(const Wide<T>* acc, T* out, size_t n) {
  if constexpr (std::is_same_v<T, Wide<T>>) {
    std::memcpy(out, acc, n * sizeof(T));
  } else {
    LOCKSTEP_EACH_ALONE
    for (size_t i = 0; i < n; ++i) out[i] = FromWide<T>(acc[i]);
  }
}

template <class R>
HWY_INLINE void MultiplyRow(R* acc, R factor, size_t n) {
  LOCKSTEP_EACH_ALONE
  for (size_t i = 0; i < n; ++i) acc[i] = Product(acc[i], factor);
}

// The parts of complex numbers as a row of twice the length, for sums and
// multiplication with a real number.
template <class R>
HWY_INLINE const R* Parts(const Complex<R>* row) {
  return reinterpret_cast<const R*>(row);
}
template <class R>
HWY_INLINE R* Parts(Complex<R>* row) {
  return reinterpret_cast<R*>(row);
}

// acc = acc * src. The parts are computed in arrays of their own: GCC 12 makes
// fused instructions (vfmaddsub) of a loop over interleaved parts, even with
// -ffp-contract=off.
template <class R>
HWY_INLINE void MultiplyComplexRow(const Complex<R>* src, Complex<R>* acc,
                                   size_t n) {
  R real[kTile];
  R imaginary[kTile];
  for (size_t i = 0; i < n; ++i) {
    const Complex<R> product = Product(acc[i], src[i]);
    real[i] = product.real;
    imaginary[i] = product.imaginary;
  }
  for (size_t i = 0; i < n; ++i) acc[i] = {real[i], imaginary[i]};
}

template <class T>
void CombineRowBy(ReduceOp op, const T* src, Wide<T>* acc, size_t n) {
  using W = Wide<T>;
  if constexpr (kIsComplex<T>) {
    using R = Share<T>;
    if (op == ReduceOp::kProd) return MultiplyComplexRow(src, acc, n);
    CombineRow(Parts(src), Parts(acc), 2 * n,
               [](R a, R b) { return Sum(a, b); });
  } else {
    if (op == ReduceOp::kProd) {
      return CombineRow(src, acc, n, [](W a, W b) { return Product(a, b); });
    }
    if (op == ReduceOp::kMin) {
      return CombineRow(src, acc, n, [](W a, W b) { return Smaller(a, b); });
    }
    if (op == ReduceOp::kMax) {
      return CombineRow(src, acc, n, [](W a, W b) { return Larger(a, b); });
    }
    CombineRow(src, acc, n, [](W a, W b) { return Sum(a, b); });
  }
}

template <class T>
void MultiplyRowByShare(size_t rows, Wide<T>* acc, size_t n) {
  const Share<T> share = Share<T>{1} / static_cast<Share<T>>(rows);
  if constexpr (kIsComplex<T>) {
    MultiplyRow(Parts(acc), share, 2 * n);
  } else {
    MultiplyRow(acc, share, n);
  }
}

template <class T>
void ReduceTyped(std::span<const void* const> rows, T* out, size_t count,
                 ReduceOp op) {
  Wide<T> acc[kTile];
  for (size_t begin = 0; begin < count; begin += kTile) {
    const size_t n = std::min(kTile, count - begin);
    WidenRow(static_cast<const T*>(rows[0]) + begin, acc, n);
    for (const void* row : rows.subspan(1)) {
      CombineRowBy(op, static_cast<const T*>(row) + begin, acc, n);
    }
    if constexpr (!std::is_integral_v<Wide<T>>) {
      if (op == ReduceOp::kMean) MultiplyRowByShare<T>(rows.size(), acc, n);
    }
    RoundRow(acc, out + begin, n);
  }
}

void ReduceRowsOf(DType dtype, std::span<const void* const> rows, void* out,
                  size_t count, ReduceOp op) {
  WithOtherType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    ReduceTyped(rows, static_cast<T*>(out), count, op);
  });
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(ReduceRowsOf);

void ReduceAny(std::span<const void* const> rows, void* out, size_t count,
               DType dtype, ReduceOp op) {
  Check(!rows.empty(), "a reduction of no rows has no value");
  Check(CanReduceAny(dtype, op), "ReduceAny does not take this dtype and op");
  HWY_DYNAMIC_DISPATCH(ReduceRowsOf)(dtype, rows, out, count, op);
}

}  // namespace lockstep::kernels
#endif  // HWY_ONCE
