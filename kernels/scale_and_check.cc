#include "kernels/scale_and_check.h"

#include "kernels/check_run.h"
#include "kernels/dispatch.h"
#include "kernels/tiles.h"

namespace lockstep::kernels {
namespace {

template <class T>
void ScaleElements(T* data, Compute<T> factor, size_t count) {
  ForTiles(count, [&](size_t begin, size_t n) {
    ScaleTile(data + begin, factor, data + begin, n);
  });
}

template <class T>
FiniteCheck ScaleAndCheckRange(T* data, Compute<T> factor, size_t count) {
  return CheckByRuns(count, [&](size_t begin, size_t n) {
    ScaleElements(data + begin, factor, n);
    return CheckRun(data + begin, n, /*inverse_scale=*/1.0);
  });
}

}  // namespace

void ScaleAndCheck(void* data, DType dtype, double factor,
                   const ElementRange& scaled,
                   std::span<const ElementRange> checked, FiniteCheck* total) {
  WithFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* const elements = static_cast<T*>(data);
    const auto rounded = static_cast<Compute<T>>(factor);
    ForScaledParts(
        scaled, checked,
        [&](const ElementRange& gap) {
          ScaleElements(elements + gap.offset, rounded, gap.count);
        },
        [&](const ElementRange& range) {
          const FiniteCheck check =
              ScaleAndCheckRange(elements + range.offset, rounded, range.count);
          total->sum_of_squares += check.sum_of_squares;
          total->non_finite += check.non_finite;
        });
  });
}

}  // namespace lockstep::kernels
