#include "kernels/finite_check.h"

#include "kernels/check_run.h"
#include "kernels/dispatch.h"
#include "kernels/sum_tree.h"

namespace lockstep::kernels {
FiniteCheck CheckFinite(const void* data, DType dtype, size_t count,
                        double inverse_scale) {
  SumTree tree;
  uint64_t non_finite = 0;
  WithFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* typed = static_cast<const T*>(data);
    for (size_t begin = 0; begin < count; begin += kSumRun) {
      const size_t n = count - begin < kSumRun ? count - begin : kSumRun;
      const FiniteCheck run = CheckRun(typed + begin, n, inverse_scale);
      tree.Add(run.sum_of_squares);
      non_finite += run.non_finite;
    }
  });
  return {.sum_of_squares = tree.Total(), .non_finite = non_finite};
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
