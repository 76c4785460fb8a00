#include "kernels/dispatch.h"
#include "kernels/element.h"
#include "kernels/rows.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pair_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/squares-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Inputs = std::span<const void* const>;
using Outputs = std::span<void* const>;

// The elements that do not fill a vector, one at a time.
template <class T>
struct One {
  static HWY_INLINE T Load(const T* from) { return *from; }
  static HWY_INLINE T Add(T a, T b) { return Sum(a, b); }
  static HWY_INLINE T Scale(T a, T factor) { return Product(a, factor); }
  static HWY_INLINE void Store(T value, T* to) { *to = value; }
};

template <class T>
struct Many {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static HWY_INLINE V Load(const T* from) { return hn::LoadU(D(), from); }
  static HWY_INLINE V Add(V a, V b) { return hn::Add(a, b); }
  static HWY_INLINE V Scale(V a, T factor) {
    return hn::Mul(a, hn::Set(D(), factor));
  }
  static HWY_INLINE void Store(V value, T* to) { hn::StoreU(value, D(), to); }
};

// The tree over a number of rows known at compile time: all in registers.
template <class L, size_t kRows, class T>
HWY_INLINE auto SumOf(Inputs in, size_t at, const T* tag) {
  if constexpr (kRows == 1) {
    return L::Load(static_cast<const T*>(in[0]) + at);
  } else {
    return L::Add(SumOf<L, kRows / 2>(in, at, tag),
                  SumOf<L, kRows / 2>(in.subspan(kRows / 2), at, tag));
  }
}

// The tree over more rows: subtrees of eight.
template <class L, class T>
auto SumOfMany(Inputs in, size_t at, const T* tag)
    -> decltype(SumOf<L, 1>(in, at, tag)) {
  if (in.size() == 8) return SumOf<L, 8>(in, at, tag);
  const size_t half = in.size() / 2;
  return L::Add(SumOfMany<L>(in.first(half), at, tag),
                SumOfMany<L>(in.subspan(half), at, tag));
}

template <class L, size_t kRows, class T>
HWY_INLINE auto TreeOf(Inputs in, size_t at, const T* tag) {
  if constexpr (kRows > 8) {
    return SumOfMany<L>(in, at, tag);
  } else {
    return SumOf<L, kRows>(in, at, tag);
  }
}

template <class L, size_t kRows, class T>
HWY_INLINE auto ScaledTree(Inputs in, size_t at, T factor) {
  return L::Scale(TreeOf<L, kRows>(in, at, &factor), factor);
}

// Four vectors at a time. `also` receives them while they are in registers.
template <size_t kRows, class T, class Also>
HWY_INLINE size_t FoldBlocks(Inputs in, Outputs out, size_t n, T factor,
                             Also& also) {
  using L = Many<T>;
  const size_t lanes = hn::Lanes(typename L::D());
  size_t at = 0;
  for (; at + 4 * lanes <= n; at += 4 * lanes) {
    const auto v0 = ScaledTree<L, kRows>(in, at, factor);
    const auto v1 = ScaledTree<L, kRows>(in, at + lanes, factor);
    const auto v2 = ScaledTree<L, kRows>(in, at + 2 * lanes, factor);
    const auto v3 = ScaledTree<L, kRows>(in, at + 3 * lanes, factor);
    for (void* const row : out) {
      T* const to = static_cast<T*>(row) + at;
      L::Store(v0, to);
      L::Store(v1, to + lanes);
      L::Store(v2, to + 2 * lanes);
      L::Store(v3, to + 3 * lanes);
    }
    also.template Add<0>(v0);
    also.template Add<1>(v1);
    also.template Add<2>(v2);
    also.template Add<3>(v3);
  }
  return at;
}

// Returns how many elements were in blocks. kRows > 8: any number of rows.
template <size_t kRows, class T, class Also>
size_t FoldTyped(Inputs in, Outputs out, size_t n, T factor, Also& also) {
  const size_t blocks = FoldBlocks<kRows>(in, out, n, factor, also);
  for (size_t at = blocks; at < n; ++at) {
    const T sum = ScaledTree<One<T>, kRows>(in, at, factor);
    for (void* const row : out) One<T>::Store(sum, static_cast<T*>(row) + at);
  }
  return blocks;
}

template <class T, class Also>
size_t FoldByCount(Inputs in, Outputs out, size_t n, T factor, Also& also) {
  switch (in.size()) {
    case 1: return FoldTyped<1>(in, out, n, factor, also);
    case 2: return FoldTyped<2>(in, out, n, factor, also);
    case 4: return FoldTyped<4>(in, out, n, factor, also);
    case 8: return FoldTyped<8>(in, out, n, factor, also);
    default: return FoldTyped<16>(in, out, n, factor, also);
  }
}

void FoldPairs(DType dtype, Inputs in, Outputs out, size_t n, double factor) {
  NoSquares none;
  WithWide(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    FoldByCount(in, out, n, static_cast<T>(factor), none);
  });
}

void FoldF32PairsSquaring(Inputs in, Outputs out, size_t n, double factor,
                          double* lanes) {
  const float by = static_cast<float>(factor);
#if LOCKSTEP_SQUARES_IN_REGISTERS
  Squares squares(lanes);
  const size_t rest = FoldByCount(in, out, n, by, squares);
  squares.Store(lanes);
#else
  NoSquares none;
  FoldByCount(in, out, n, by, none);
  const size_t rest = 0;
#endif
  AddSquaresRow(static_cast<const float*>(out[0]) + rest, 1.0, lanes, n - rest);
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(FoldPairs);
HWY_EXPORT(FoldF32PairsSquaring);

void FoldPairedRows(DType dtype, std::span<const void* const> in,
                    std::span<void* const> out, size_t n, double factor) {
  HWY_DYNAMIC_DISPATCH(FoldPairs)(dtype, in, out, n, factor);
}

void FoldPairedF32RowsSquaring(std::span<const void* const> in,
                               std::span<void* const> out, size_t n,
                               double factor, double* lanes) {
  HWY_DYNAMIC_DISPATCH(FoldF32PairsSquaring)(in, out, n, factor, lanes);
}

}  // namespace lockstep::kernels
#endif  // HWY_ONCE
