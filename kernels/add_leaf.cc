#include "kernels/add_leaf.h"

#include <array>
#include <cstring>

#include "kernels/dispatch.h"
#include "kernels/reduce.h"
#include "kernels/tiles.h"

namespace lockstep::kernels {
namespace {

// The leaf, then the sums to its left: reduced in this order, they form the
// tree.
class Addends {
 public:
  Addends(std::span<const void* const> left, const void* leaf)
      : count_(left.size() + 1) {
    rows_[0] = leaf;
    for (size_t k = 0; k < left.size(); ++k) rows_[k + 1] = left[k];
  }

  void SetLeaf(const void* leaf) { rows_[0] = leaf; }
  // Advances the pointers to the left sums by `bytes`.
  void Advance(size_t bytes) {
    for (size_t k = 1; k < count_; ++k) {
      rows_[k] = static_cast<const std::byte*>(rows_[k]) + bytes;
    }
  }

  void SumInto(void* out, DType dtype, size_t count) const {
    if (count_ > 1) {
      ReduceRanks({rows_.data(), count_}, out, count, dtype, ReduceOp::kSum);
    } else if (count > 0 && out != rows_[0]) {
      std::memcpy(out, rows_[0], count * SizeOf(dtype));
    }
  }

 private:
  std::array<const void*, kLeftSumsMax + 1> rows_;
  size_t count_;
};

// Rounds and widens the leaf tile by tile.
template <class Leaf, class Sum>
void AddByTiles(Addends addends, const Leaf* leaf, double weight, Sum* out,
                DType out_dtype, size_t count) {
  ForTiles(count, [&](size_t begin, size_t n) {
    Leaf scaled[kTile];
    Sum tile[kTile];
    ScaleTile(leaf + begin, static_cast<Compute<Leaf>>(weight), scaled, n);
    addends.SetLeaf(Widened(scaled, tile, n));
    addends.SumInto(out + begin, out_dtype, n);
    addends.Advance(n * sizeof(Sum));
  });
}

}  // namespace

void AddLeaf(std::span<const void* const> left, const void* leaf, DType dtype,
             double weight, void* out, DType out_dtype, size_t count) {
  Check(left.size() <= kLeftSumsMax, "a leaf completes 10 sums at most");
  Check(out_dtype == (dtype == DType::kF64 ? DType::kF64 : DType::kF32),
        "leaves are summed in f32, those of f64 in f64");
  const Addends addends(left, leaf);
  if (dtype == out_dtype && weight == 1) {
    return addends.SumInto(out, out_dtype, count);
  }
  WithFloat(dtype, [&](auto tag) {
    using Leaf = typename decltype(tag)::type;
    AddByTiles(addends, static_cast<const Leaf*>(leaf), weight,
               static_cast<Compute<Leaf>*>(out), out_dtype, count);
  });
}

}  // namespace lockstep::kernels
