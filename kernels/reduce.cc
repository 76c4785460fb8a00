#include "kernels/reduce.h"

#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/tiles.h"

namespace lockstep::kernels {
namespace {

template <class C>
constexpr DType kComputeDType = DType::kF32;
template <>
constexpr DType kComputeDType<double> = DType::kF64;

// One tile of ReduceRanks. All inputs are read before `out` is written, so that
// it may be one of them.
template <class T>
void ReduceFloatTile(std::span<const void* const> inputs, size_t begin,
                     size_t n, ReduceOp op, T* out) {
  using C = Compute<T>;
  const ReduceOp fold = op == ReduceOp::kMean ? ReduceOp::kSum : op;
  auto row = [&](size_t rank) {
    return static_cast<const T*>(inputs[rank]) + begin;
  };
  C acc[kTile];
  C wide[kTile];
  const C* first = Widened(row(0), acc, n);
  if (first != acc) std::memcpy(acc, first, n * sizeof(C));
  for (size_t rank = 1; rank < inputs.size(); ++rank) {
    FoldRow(kComputeDType<C>, fold, Widened(row(rank), wide, n), acc, n);
  }
  if (op == ReduceOp::kMean) {
    const C share = C{1} / static_cast<C>(inputs.size());
    ScaleRow(acc, share, acc, n);
  }
  if constexpr (std::is_same_v<T, C>) {
    std::memcpy(out, acc, n * sizeof(C));
  } else {
    Narrow(acc, out, n);
  }
}

void ReduceFloats(std::span<const void* const> inputs, void* out, size_t count,
                  DType dtype, ReduceOp op) {
  WithFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* typed = static_cast<T*>(out);
    ForTiles(count, [&](size_t begin, size_t n) {
      ReduceFloatTile(inputs, begin, n, op, typed + begin);
    });
  });
}

void ReduceIntegers(std::span<const void* const> inputs, void* out,
                    size_t count, DType dtype, ReduceOp op) {
  const size_t bytes = SizeOf(dtype);
  std::byte* to = static_cast<std::byte*>(out);
  ForTiles(count, [&](size_t begin, size_t n) {
    auto row = [&](size_t rank) {
      return static_cast<const std::byte*>(inputs[rank]) + begin * bytes;
    };
    alignas(8) std::byte acc[kTile * 8];
    std::memcpy(acc, row(0), n * bytes);
    for (size_t rank = 1; rank < inputs.size(); ++rank) {
      FoldRow(dtype, op, row(rank), acc, n);
    }
    std::memcpy(to + begin * bytes, acc, n * bytes);
  });
}

}  // namespace

void ReduceRanks(std::span<const void* const> inputs, void* out, size_t count,
                 DType dtype, ReduceOp op) {
  Check(!inputs.empty(), "a reduction of no ranks has no value");
  if (IsFloat(dtype)) {
    ReduceFloats(inputs, out, count, dtype, op);
  } else {
    Check(op != ReduceOp::kMean, "integers have no mean");
    ReduceIntegers(inputs, out, count, dtype, op);
  }
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
