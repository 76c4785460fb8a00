#include "kernels/half.h"
#include "kernels/rows.h"
#include "kernels/sum_tree.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/square_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

HWY_INLINE float FiniteOrZero(float value) {
  const uint32_t mask = 0u - static_cast<uint32_t>(IsFinite(value));
  return FloatOf(BitsOf(value) & mask);
}

HWY_INLINE double FiniteOrZero(double value) {
  const uint64_t mask = 0u - static_cast<uint64_t>(IsFinite(value));
  return DoubleOf(BitsOf(value) & mask);
}

template <class T>
HWY_INLINE double Square(T value, double scale) {
  const double scaled = static_cast<double>(FiniteOrZero(value)) * scale;
  return scaled * scaled;
}

template <class T>
HWY_INLINE void AddSquares(const T* src, double scale, double* lanes,
                           size_t n) {
  double sums[kSumLanes];
  for (size_t lane = 0; lane < kSumLanes; ++lane) sums[lane] = lanes[lane];
  size_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
    for (size_t lane = 0; lane < kSumLanes; ++lane) {
      sums[lane] += Square(src[i + lane], scale);
    }
  }
  for (; i < n; ++i) sums[i % kSumLanes] += Square(src[i], scale);
  for (size_t lane = 0; lane < kSumLanes; ++lane) lanes[lane] = sums[lane];
}

void SquaresF32(const float* src, double scale, double* lanes, size_t n) {
  AddSquares(src, scale, lanes, n);
}

void SquaresF64(const double* src, double scale, double* lanes, size_t n) {
  AddSquares(src, scale, lanes, n);
}

size_t NonFiniteF32(const float* src, size_t n) {
  uint32_t count = 0;
  for (size_t i = 0; i < n; ++i) count += IsFinite(src[i]) ? 0u : 1u;
  return count;
}

size_t NonFiniteF64(const double* src, size_t n) {
  uint64_t count = 0;
  for (size_t i = 0; i < n; ++i) count += IsFinite(src[i]) ? 0u : 1u;
  return count;
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(SquaresF32);
HWY_EXPORT(SquaresF64);
HWY_EXPORT(NonFiniteF32);
HWY_EXPORT(NonFiniteF64);

void AddSquaresRow(const float* src, double scale, double* lanes, size_t n) {
  HWY_DYNAMIC_DISPATCH(SquaresF32)(src, scale, lanes, n);
}
void AddSquaresRow(const double* src, double scale, double* lanes, size_t n) {
  HWY_DYNAMIC_DISPATCH(SquaresF64)(src, scale, lanes, n);
}
size_t CountNonFiniteRow(const float* src, size_t n) {
  return HWY_DYNAMIC_DISPATCH(NonFiniteF32)(src, n);
}
size_t CountNonFiniteRow(const double* src, size_t n) {
  return HWY_DYNAMIC_DISPATCH(NonFiniteF64)(src, n);
}

}  // namespace lockstep::kernels
#endif  // HWY_ONCE
