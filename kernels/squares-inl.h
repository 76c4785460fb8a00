// Sums the squares of values that a reduction has in registers.
//
//   block of rows     [v0 v1 v2 v3] ──▶ the output rows
//                       └─ widened, squared ──▶ lanes of sum_tree.h
//
// Compiled with the including file, once for each of its targets; include it
// after hwy/highway.h.

#if defined(LOCKSTEP_KERNELS_SQUARES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_KERNELS_SQUARES_INL_H_
#undef LOCKSTEP_KERNELS_SQUARES_INL_H_
#else
#define LOCKSTEP_KERNELS_SQUARES_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"
#include "kernels/sum_tree.h"

// On these targets a block of four vectors fills every lane a whole number of
// times. The other targets sum the squares in a second pass over a run that is
// still in the L1 cache.
#undef LOCKSTEP_SQUARES_IN_REGISTERS
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define LOCKSTEP_SQUARES_IN_REGISTERS 1
#else
#define LOCKSTEP_SQUARES_IN_REGISTERS 0
#endif

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The variant that sums no squares.
struct NoSquares {
  template <size_t kVector, class V>
  HWY_INLINE void Add(V) {}
};

#if LOCKSTEP_SQUARES_IN_REGISTERS
// Sums the squares in the lanes of sum_tree.h. A block fills every lane a whole
// number of times.
class Squares {
 public:
  explicit Squares(const double* lanes) {
    for (size_t k = 0; k < kVectors; ++k) {
      sums_[k] = hn::LoadU(D(), lanes + k * kPer);
    }
  }
  template <size_t kVector, class V>
  HWY_INLINE void Add(V floats) {
    const hn::Half<hn::ScalableTag<float>> half;
    AddTo<2 * kVector % kVectors>(hn::LowerHalf(half, floats));
    AddTo<(2 * kVector + 1) % kVectors>(hn::UpperHalf(half, floats));
  }
  void Store(double* lanes) const {
    for (size_t k = 0; k < kVectors; ++k) {
      hn::StoreU(sums_[k], D(), lanes + k * kPer);
    }
  }

 private:
  using D = hn::ScalableTag<double>;
  static constexpr size_t kPer = HWY_MAX_BYTES / sizeof(double);
  static constexpr size_t kVectors = kSumLanes / kPer;

  template <size_t kAt, class H>
  HWY_INLINE void AddTo(H floats) {
    const auto wide = hn::PromoteTo(D(), floats);
    sums_[kAt] = hn::Add(sums_[kAt], hn::Mul(wide, wide));
  }

  hn::Vec<D> sums_[kVectors];
};
#endif

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
