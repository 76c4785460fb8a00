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

void Fold(DType dtype, ReduceOp op, const void* src, void* acc, size_t n) {
  WithType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsHalf<T>) {
      Fatal("halves are folded as f32");
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
HWY_EXPORT(Fold);

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
void FoldRow(DType dtype, ReduceOp op, const void* src, void* acc, size_t n) {
  HWY_DYNAMIC_DISPATCH(Fold)(dtype, op, src, acc, n);
}

}  // namespace lockstep::kernels
#endif  // HWY_ONCE
