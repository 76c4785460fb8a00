#include "kernels/finite_check.h"

#include <type_traits>

#include "kernels/dispatch.h"
#include "kernels/rows.h"
#include "kernels/sum_tree.h"

namespace lockstep::kernels {
namespace {

// One run of the tree; `n` is kSumRun except at the end.
template <class T>
FiniteCheck CheckRun(const T* run, size_t n, double inverse_scale) {
  if constexpr (kIsHalf<T>) {
    float wide[kSumRun];
    ConvertRow(run, wide, n);
    return CheckRun(wide, n, inverse_scale);
  } else {
    double lanes[kSumLanes] = {};
    AddSquaresRow(run, inverse_scale, lanes, n);
    return {.sum_of_squares = FoldLanes(lanes),
            .non_finite = CountNonFiniteRow(run, n)};
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

}  // namespace lockstep::kernels
