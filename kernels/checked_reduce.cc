#include "kernels/checked_reduce.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/check_run.h"
#include "kernels/dispatch.h"
#include "kernels/reduce.h"
#include "kernels/reduce_pairs.h"
#include "kernels/rows.h"

namespace lockstep::kernels {
namespace {

// Advances all rows by `bytes`.
template <class Pointer>
void Advance(std::vector<Pointer>& rows, size_t bytes) {
  using Byte = std::conditional_t<std::is_same_v<Pointer, void*>, std::byte,
                                  const std::byte>;
  for (Pointer& row : rows) row = static_cast<Byte*>(row) + bytes;
}

}  // namespace

template <class T>
FiniteCheck CheckedReduce::FoldRun(std::span<const void* const> in,
                                   std::span<void* const> out, size_t n) const {
  const T* const result = static_cast<const T*>(out[0]);
  if constexpr (std::is_same_v<T, float>) {
    double lanes[kSumLanes] = {};
    if (pairs_factor_) {
      FoldPairedF32RowsSquaring(in, out, n, *pairs_factor_, lanes);
    } else {
      FoldF32RowsSquaring(op_, in, out, n, lanes);
    }
    return CheckSummedRun(result, n, 1.0, SumLanes(lanes));
  } else if (pairs_factor_) {
    ReducePairsToAll(in, out, n, dtype_, *pairs_factor_);
  } else {
    ReduceRanksToAll(in, out, n, dtype_, op_);
  }
  return CheckRun(result, n, 1.0);
}

void CheckedReduce::Reduce(std::span<const void* const> inputs,
                           std::span<void* const> outs, size_t count) {
  std::vector<const void*> in(inputs.begin(), inputs.end());
  std::vector<void*> out(outs.begin(), outs.end());
  WithFloat(dtype_, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t begin = 0; begin < count; begin += kSumRun) {
      const size_t n = std::min(count - begin, kSumRun);
      const FiniteCheck run = FoldRun<T>(in, out, n);
      tree_.Add(run.sum_of_squares);
      non_finite_ += run.non_finite;
      Advance(in, n * sizeof(T));
      Advance(out, n * sizeof(T));
    }
  });
}

}  // namespace lockstep::kernels
