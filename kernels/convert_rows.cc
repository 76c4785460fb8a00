#include "kernels/half.h"
#include "kernels/rows.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convert_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

// CPUs with AVX2 convert f16 in hardware, several times as fast, to the same
// bits. Both functions return the number of converted elements: whole vectors.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Halves = hn::Rebind<hwy::float16_t, Floats>;

HWY_INLINE size_t WidenVectors(const F16* src, float* dst, size_t n) {
  const size_t lanes = hn::Lanes(Floats());
  const auto* from = reinterpret_cast<const hwy::float16_t*>(src);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto half = hn::LoadU(Halves(), from + i);
    hn::StoreU(hn::PromoteTo(Floats(), half), Floats(), dst + i);
  }
  return i;
}

HWY_INLINE size_t NarrowVectors(const float* src, F16* dst, size_t n) {
  const size_t lanes = hn::Lanes(Floats());
  auto* to = reinterpret_cast<hwy::float16_t*>(dst);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto value = hn::LoadU(Floats(), src + i);
    hn::StoreU(hn::DemoteTo(Halves(), value), Halves(), to + i);
  }
  return i;
}
#else
HWY_INLINE size_t WidenVectors(const F16*, float*, size_t) { return 0; }
HWY_INLINE size_t NarrowVectors(const float*, F16*, size_t) { return 0; }
#endif

void F16ToF32(const F16* src, float* dst, size_t n) {
  const size_t done = WidenVectors(src, dst, n);
  LOCKSTEP_EACH_ALONE
  for (size_t i = done; i < n; ++i) dst[i] = ToF32(src[i]);
}

void BF16ToF32(const BF16* src, float* dst, size_t n) {
  LOCKSTEP_EACH_ALONE
  for (size_t i = 0; i < n; ++i) dst[i] = ToF32(src[i]);
}

void F32ToF16(const float* src, F16* dst, size_t n) {
  const size_t done = NarrowVectors(src, dst, n);
  LOCKSTEP_EACH_ALONE
  for (size_t i = done; i < n; ++i) dst[i] = ToF16(src[i]);
}

void F32ToBF16(const float* src, BF16* dst, size_t n) {
  LOCKSTEP_EACH_ALONE
  for (size_t i = 0; i < n; ++i) dst[i] = ToBF16(src[i]);
}

void F32ToF64(const float* src, double* dst, size_t n) {
  LOCKSTEP_EACH_ALONE
  for (size_t i = 0; i < n; ++i) dst[i] = src[i];
}

void F64ToF32(const double* src, float* dst, size_t n) {
  LOCKSTEP_EACH_ALONE
  for (size_t i = 0; i < n; ++i) dst[i] = static_cast<float>(src[i]);
}

void F64ToF32Odd(const double* src, float* dst, size_t n) {
  LOCKSTEP_EACH_ALONE
  for (size_t i = 0; i < n; ++i) dst[i] = ToF32Odd(src[i]);
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(F16ToF32);
HWY_EXPORT(BF16ToF32);
HWY_EXPORT(F32ToF16);
HWY_EXPORT(F32ToBF16);
HWY_EXPORT(F32ToF64);
HWY_EXPORT(F64ToF32);
HWY_EXPORT(F64ToF32Odd);

void ConvertRow(const F16* src, float* dst, size_t n) {
  HWY_DYNAMIC_DISPATCH(F16ToF32)(src, dst, n);
}
void ConvertRow(const BF16* src, float* dst, size_t n) {
  HWY_DYNAMIC_DISPATCH(BF16ToF32)(src, dst, n);
}
void ConvertRow(const float* src, F16* dst, size_t n) {
  HWY_DYNAMIC_DISPATCH(F32ToF16)(src, dst, n);
}
void ConvertRow(const float* src, BF16* dst, size_t n) {
  HWY_DYNAMIC_DISPATCH(F32ToBF16)(src, dst, n);
}
void ConvertRow(const float* src, double* dst, size_t n) {
  HWY_DYNAMIC_DISPATCH(F32ToF64)(src, dst, n);
}
void ConvertRow(const double* src, float* dst, size_t n) {
  HWY_DYNAMIC_DISPATCH(F64ToF32)(src, dst, n);
}
void ConvertRowOdd(const double* src, float* dst, size_t n) {
  HWY_DYNAMIC_DISPATCH(F64ToF32Odd)(src, dst, n);
}

}  // namespace lockstep::kernels
#endif  // HWY_ONCE
