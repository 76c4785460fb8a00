#include "kernels/reduce_pairs.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "kernels/dispatch.h"
#include "kernels/tiles.h"

namespace lockstep::kernels {
namespace {

constexpr int kLevels = std::bit_width(unsigned{kPairedRowsMax});

// Sums that wait for their right neighbour, like the digits of a binary
// counter: levels[k] is the sum of 2^k rows.
template <class T>
void ReduceTile(const T* inputs, int rows, size_t stride, T* levels, size_t n) {
  for (int row = 0; row < rows; ++row) {
    const T* sum = inputs + row * stride;
    int level = 0;
    for (; (row >> level & 1) != 0; ++level) {
      AddScaledRow(sum, T{1}, levels + level * kTile, n);
      sum = levels + level * kTile;
    }
    std::copy_n(sum, n, levels + level * kTile);
  }
}

void CheckRows(size_t rows) {
  Check(std::has_single_bit(rows) && rows <= kPairedRowsMax,
        "sums in pairs take 1, 2, 4, ... 1024 rows");
}

}  // namespace

void ReducePairs(const void* inputs, int rows, DType dtype, double factor,
                 void* out, DType out_dtype, size_t count) {
  CheckRows(static_cast<size_t>(rows));
  const int top = std::bit_width(static_cast<unsigned>(rows)) - 1;
  WithWide(dtype, [&](auto wide) {
    WithFloat(out_dtype, [&](auto narrow) {
      using T = typename decltype(wide)::type;
      using Out = typename decltype(narrow)::type;
      using C = std::common_type_t<T, Compute<Out>>;
      T levels[kLevels * kTile];
      ForTiles(count, [&](size_t begin, size_t n) {
        ReduceTile(static_cast<const T*>(inputs) + begin, rows, count, levels,
                   n);
        ScaleTile(levels + top * kTile, static_cast<C>(factor),
                  static_cast<Out*>(out) + begin, n);
      });
    });
  });
}

void ReducePairsToAll(std::span<const void* const> inputs,
                      std::span<void* const> outs, size_t count, DType dtype,
                      double factor) {
  CheckRows(inputs.size());
  Check(!outs.empty(), "a sum that goes nowhere");
  if (inputs.size() == 2 && outs.size() <= 2 && factor == 1) {
    FoldToTwoRows(dtype, ReduceOp::kSum, inputs[0], inputs[1], outs.front(),
                  outs.back(), count);
  } else {
    FoldPairedRows(dtype, inputs, outs, count, factor);
  }
}

}  // namespace lockstep::kernels
