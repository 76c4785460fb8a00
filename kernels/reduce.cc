#include "kernels/reduce.h"

#include <cstring>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/tiles.h"

namespace lockstep::kernels {
namespace {

// The outputs that a tile of results is written to.
struct Rows {
  std::span<void* const> rows;

  std::byte* At(size_t row, size_t bytes) const {
    return static_cast<std::byte*>(rows[row]) + bytes;
  }
  // Copies the tile at `begin` of the first row to the other rows.
  void Spread(size_t begin, size_t bytes) const {
    for (size_t row = 1; row < rows.size(); ++row) {
      std::memcpy(At(row, begin), At(0, begin), bytes);
    }
  }
};

void ReduceIntegers(std::span<const void* const> inputs, Rows outs,
                    size_t count, DType dtype, ReduceOp op) {
  const size_t bytes = SizeOf(dtype);
  ForTiles(count, [&](size_t begin, size_t n) {
    auto row = [&](size_t rank) {
      return static_cast<const std::byte*>(inputs[rank]) + begin * bytes;
    };
    alignas(8) std::byte acc[kTile * 8];
    std::memcpy(acc, row(0), n * bytes);
    for (size_t rank = 1; rank < inputs.size(); ++rank) {
      ReduceRow(dtype, op, row(rank), acc, n);
    }
    std::memcpy(outs.At(0, begin * bytes), acc, n * bytes);
    outs.Spread(begin * bytes, n * bytes);
  });
}

// Two rows, the most common case: a separate loop is a quarter faster.
bool IsPair(size_t inputs, size_t outs, DType dtype, ReduceOp op) {
  return inputs == 2 && outs <= 2 && op != ReduceOp::kMean &&
         dtype != DType::kF16 && dtype != DType::kBF16;
}

}  // namespace

void ReduceRanksToAll(std::span<const void* const> inputs,
                      std::span<void* const> outs, size_t count, DType dtype,
                      ReduceOp op, int divisor) {
  Check(!inputs.empty() && !outs.empty(),
        "a reduction of no ranks has no value");
  Check(IsFloat(dtype) || op != ReduceOp::kMean, "integers have no mean");
  if (IsPair(inputs.size(), outs.size(), dtype, op)) {
    FoldToTwoRows(dtype, op, inputs[0], inputs[1], outs.front(), outs.back(),
                  count);
  } else if (IsFloat(dtype)) {
    const int ranks = static_cast<int>(inputs.size());
    ReduceFloatRows(dtype, op, divisor > 0 ? divisor : ranks, inputs, outs,
                    count);
  } else {
    ReduceIntegers(inputs, {outs}, count, dtype, op);
  }
}

void ReduceRanks(std::span<const void* const> inputs, void* out, size_t count,
                 DType dtype, ReduceOp op) {
  void* const outs[] = {out};
  ReduceRanksToAll(inputs, outs, count, dtype, op);
}

void ReduceRows(const void* inputs, int rows, void* out, size_t count,
                DType dtype, ReduceOp op) {
  std::vector<const void*> each;
  for (int row = 0; row < rows; ++row) {
    each.push_back(static_cast<const std::byte*>(inputs) +
                   row * count * SizeOf(dtype));
  }
  ReduceRanks(each, out, count, dtype, op);
}

void Reduce(void* dst, const void* src, size_t count, DType dtype,
            ReduceOp op) {
  const void* const inputs[] = {dst, src};
  ReduceRanks(inputs, dst, count, dtype, op);
}

}  // namespace lockstep::kernels
