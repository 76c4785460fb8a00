// The finite check of one run of sum_tree.h: at most kSumRun elements; and of a
// row, run by run. Internal to kernels/*.cc.

#ifndef LOCKSTEP_KERNELS_CHECK_RUN_H_
#define LOCKSTEP_KERNELS_CHECK_RUN_H_

#include <cstddef>
#include <cstdint>

#include "kernels/element.h"
#include "kernels/finite_check.h"
#include "kernels/rows.h"
#include "kernels/sum_tree.h"

namespace lockstep::kernels {

template <class T>
double SumRun(const T* run, size_t n, double inverse_scale) {
  double lanes[kSumLanes] = {};
  AddSquaresRow(run, inverse_scale, lanes, n);
  return SumLanes(lanes);
}

// Sums a copy of the run in which elements that are not finite are 0.
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

// `sum`: the result of SumRun. An infinity or NaN among the squares makes the
// sum infinite or NaN, so a finite sum needs no second pass. Nearly every run
// takes this path.
template <class T>
FiniteCheck CheckSummedRun(const T* run, size_t n, double inverse_scale,
                           double sum) {
  if (IsFinite(sum)) return {.sum_of_squares = sum, .non_finite = 0};
  return CheckSuspectRun(run, n, inverse_scale);
}

template <class T>
FiniteCheck CheckRun(const T* run, size_t n, double inverse_scale) {
  if constexpr (kIsHalf<T>) {
    float wide[kSumRun];
    ConvertRow(run, wide, n);
    return CheckRun(wide, n, inverse_scale);
  } else {
    return CheckSummedRun(run, n, inverse_scale, SumRun(run, n, inverse_scale));
  }
}

// The check of `count` elements: adds check_run(begin, n) of their runs, in
// order.
template <class CheckOne>
FiniteCheck CheckByRuns(size_t count, CheckOne check_run) {
  SumTree tree;
  uint64_t non_finite = 0;
  for (size_t begin = 0; begin < count; begin += kSumRun) {
    const size_t n = count - begin < kSumRun ? count - begin : kSumRun;
    const FiniteCheck run = check_run(begin, n);
    tree.Add(run.sum_of_squares);
    non_finite += run.non_finite;
  }
  return {.sum_of_squares = tree.Total(), .non_finite = non_finite};
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_CHECK_RUN_H_
