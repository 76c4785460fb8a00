#include "kernels/finite_check.h"

#include "kernels/check_run.h"
#include "kernels/dispatch.h"

namespace lockstep::kernels {
FiniteCheck CheckFinite(const void* data, DType dtype, size_t count,
                        double inverse_scale) {
  FiniteCheck check;
  WithFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* typed = static_cast<const T*>(data);
    check = CheckByRuns(count, [&](size_t begin, size_t n) {
      return CheckRun(typed + begin, n, inverse_scale);
    });
  });
  return check;
}

void AddFiniteCheck(const void* data, DType dtype,
                    std::span<const ElementRange> ranges, double inverse_scale,
                    FiniteCheck* total) {
  const std::byte* bytes = static_cast<const std::byte*>(data);
  for (const ElementRange& range : ranges) {
    const FiniteCheck check = CheckFinite(bytes + range.offset * SizeOf(dtype),
                                          dtype, range.count, inverse_scale);
    total->sum_of_squares += check.sum_of_squares;
    total->non_finite += check.non_finite;
  }
}

}  // namespace lockstep::kernels
