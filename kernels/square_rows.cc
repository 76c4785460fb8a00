#include "kernels/rows.h"
#include "kernels/sum_tree.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/square_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

template <class T>
HWY_INLINE double Square(T value, double scale) {
  const double scaled = static_cast<double>(value) * scale;
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

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(SquaresF32);
HWY_EXPORT(SquaresF64);

void AddSquaresRow(const float* src, double scale, double* lanes, size_t n) {
  HWY_DYNAMIC_DISPATCH(SquaresF32)(src, scale, lanes, n);
}
void AddSquaresRow(const double* src, double scale, double* lanes, size_t n) {
  HWY_DYNAMIC_DISPATCH(SquaresF64)(src, scale, lanes, n);
}

}  // namespace lockstep::kernels
#endif  // HWY_ONCE
