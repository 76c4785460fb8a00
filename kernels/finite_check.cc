#include "kernels/finite_check.h"

#include <type_traits>

#include "kernels/dispatch.h"
#include "kernels/rows.h"
#include "kernels/sum_tree.h"

namespace lockstep::kernels {
namespace {

// The runs below are of kSumRun elements, except the last.

template <class T>
double SumRun(const T* run, size_t n, double inverse_scale) {
  double lanes[kSumLanes] = {};
  AddSquaresRow(run, inverse_scale, lanes, n);
  return FoldLanes(lanes);
}

// What counts as 0 in the sum is 0 in this copy.
template <class T>
FiniteCheck CheckSuspectRun(const T* run, size_t n, double inverse_scale) {
  T finite[kSumRun];
  uint64_t non_finite = 0;
  for (size_t i = 0; i < n; ++i) {
    finite[i] = IsFinite(run[i]) ? run[i] : T{0};
    non_finite += IsFinite(run[i]) ? 0 : 1;
  }
  return {.sum_of_squares = SumRun(finite, n, inverse_scale),
          .non_finite = non_finite};
}

template <class T>
FiniteCheck CheckRun(const T* run, size_t n, double inverse_scale) {
  if constexpr (kIsHalf<T>) {
    float wide[kSumRun];
    ConvertRow(run, wide, n);
    return CheckRun(wide, n, inverse_scale);
  } else {
    // One infinity or NaN among the squares makes the sum one too, so a finite
    // sum needs no second look: this is the path of nearly every run.
    const double sum = SumRun(run, n, inverse_scale);
    if (IsFinite(sum)) return {.sum_of_squares = sum, .non_finite = 0};
    return CheckSuspectRun(run, n, inverse_scale);
  }
}

}  // namespace

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
