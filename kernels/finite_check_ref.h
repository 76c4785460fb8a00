// Reference for CheckFinite: all leaves in memory, and the tree of sum_tree.h
// as one recursive function.

#ifndef LOCKSTEP_KERNELS_FINITE_CHECK_REF_H_
#define LOCKSTEP_KERNELS_FINITE_CHECK_REF_H_

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/finite_check.h"
#include "kernels/half.h"
#include "kernels/sum_tree.h"

namespace lockstep::kernels {

inline double SumTreeRef(const std::vector<double>& leaves) {
  std::vector<double> runs;
  for (size_t begin = 0; begin < leaves.size(); begin += kSumRun) {
    double lanes[kSumLanes] = {};
    const size_t end = std::min(begin + kSumRun, leaves.size());
    for (size_t i = begin; i < end; ++i) lanes[i % kSumLanes] += leaves[i];
    runs.push_back(SumLanes(lanes));
  }
  if (runs.empty()) return 0;
  return runs.size() == 1 ? runs[0] : SumTreeRef(runs);
}

template <class T>
FiniteCheck CheckFiniteRef(const T* data, size_t count, double inverse_scale) {
  FiniteCheck check;
  std::vector<double> squares(count);
  for (size_t i = 0; i < count; ++i) {
    const double value = ConvertTo<double>(data[i]);
    const double scaled = value * inverse_scale;
    if (std::isfinite(value)) {
      squares[i] = scaled * scaled;
    } else {
      ++check.non_finite;
    }
  }
  check.sum_of_squares = SumTreeRef(squares);
  return check;
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_FINITE_CHECK_REF_H_
