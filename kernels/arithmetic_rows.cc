#include "kernels/dispatch.h"
#include "kernels/element.h"
#include "kernels/rows.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/arithmetic_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

void ScaleF32(const float* src, float factor, float* dst, size_t n) {
  LOCKSTEP_EACH_ALONE
  for (size_t i = 0; i < n; ++i) dst[i] = src[i] * factor;
}

void ScaleF64(const double* src, double factor, double* dst, size_t n) {
  LOCKSTEP_EACH_ALONE
  for (size_t i = 0; i < n; ++i) dst[i] = src[i] * factor;
}

void AddScaledF32(const float* src, float weight, float* sum, size_t n) {
  LOCKSTEP_EACH_ALONE
  for (size_t i = 0; i < n; ++i) sum[i] = AddedScaled(sum[i], src[i], weight);
}

void AddScaledF64(const double* src, double weight, double* sum, size_t n) {
  LOCKSTEP_EACH_ALONE
  for (size_t i = 0; i < n; ++i) sum[i] = AddedScaled(sum[i], src[i], weight);
}

template <class T>
void FoldTyped(ReduceOp op, const T* src, T* acc, size_t n) {
  switch (op) {
    case ReduceOp::kSum:
      LOCKSTEP_EACH_ALONE
      for (size_t i = 0; i < n; ++i) acc[i] = Sum(acc[i], src[i]);
      return;
    case ReduceOp::kProd:
      LOCKSTEP_EACH_ALONE
      for (size_t i = 0; i < n; ++i) acc[i] = Product(acc[i], src[i]);
      return;
    case ReduceOp::kMin:
      LOCKSTEP_EACH_ALONE
      for (size_t i = 0; i < n; ++i) acc[i] = Smaller(acc[i], src[i]);
      return;
    case ReduceOp::kMax:
      LOCKSTEP_EACH_ALONE
      for (size_t i = 0; i < n; ++i) acc[i] = Larger(acc[i], src[i]);
      return;
    case ReduceOp::kMean: break;
  }
  Fatal("a fold takes sum, min, max or prod");
}

// Reads each pair before writing it, so inputs and outputs may be the same
// rows.
template <class T, class F>
HWY_INLINE void ToTwo(const T* a, const T* b, T* out, T* copy, size_t n, F f) {
  LOCKSTEP_EACH_ALONE
  for (size_t i = 0; i < n; ++i) {
    const T value = f(a[i], b[i]);
    out[i] = value;
    copy[i] = value;
  }
}

template <class T>
void FoldTypedToTwo(ReduceOp op, const T* a, const T* b, T* out, T* copy,
                    size_t n) {
  switch (op) {
    case ReduceOp::kSum:
      return ToTwo(a, b, out, copy, n, [](T x, T y) { return Sum(x, y); });
    case ReduceOp::kProd:
      return ToTwo(a, b, out, copy, n, [](T x, T y) { return Product(x, y); });
    case ReduceOp::kMin:
      return ToTwo(a, b, out, copy, n, [](T x, T y) { return Smaller(x, y); });
    case ReduceOp::kMax:
      return ToTwo(a, b, out, copy, n, [](T x, T y) { return Larger(x, y); });
    case ReduceOp::kMean: break;
  }
  Fatal("a fold takes sum, min, max or prod");
}

void FoldToTwo(DType dtype, ReduceOp op, const void* a, const void* b,
               void* out, void* copy, size_t n) {
  WithType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsHalf<T>) {
      Fatal("halves are reduced as f32");
    } else {
      FoldTypedToTwo(op, static_cast<const T*>(a), static_cast<const T*>(b),
                     static_cast<T*>(out), static_cast<T*>(copy), n);
    }
  });
}

void Reduce(DType dtype, ReduceOp op, const void* src, void* acc, size_t n) {
  WithType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsHalf<T>) {
      Fatal("halves are reduced as f32");
    } else {
      FoldTyped(op, static_cast<const T*>(src), static_cast<T*>(acc), n);
    }
  });
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(ScaleF32);
HWY_EXPORT(ScaleF64);
HWY_EXPORT(AddScaledF32);
HWY_EXPORT(AddScaledF64);
HWY_EXPORT(Reduce);
HWY_EXPORT(FoldToTwo);

void ScaleRow(const float* src, float factor, float* dst, size_t n) {
  HWY_DYNAMIC_DISPATCH(ScaleF32)(src, factor, dst, n);
}
void ScaleRow(const double* src, double factor, double* dst, size_t n) {
  HWY_DYNAMIC_DISPATCH(ScaleF64)(src, factor, dst, n);
}
void AddScaledRow(const float* src, float weight, float* sum, size_t n) {
  HWY_DYNAMIC_DISPATCH(AddScaledF32)(src, weight, sum, n);
}
void AddScaledRow(const double* src, double weight, double* sum, size_t n) {
  HWY_DYNAMIC_DISPATCH(AddScaledF64)(src, weight, sum, n);
}
void ReduceRow(DType dtype, ReduceOp op, const void* src, void* acc, size_t n) {
  HWY_DYNAMIC_DISPATCH(Reduce)(dtype, op, src, acc, n);
}
void FoldToTwoRows(DType dtype, ReduceOp op, const void* a, const void* b,
                   void* out, void* copy, size_t n) {
  HWY_DYNAMIC_DISPATCH(FoldToTwo)(dtype, op, a, b, out, copy, n);
}

}  // namespace lockstep::kernels
#endif  // HWY_ONCE
