#include "kernels/dispatch.h"
#include "kernels/element.h"
#include "kernels/rows.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pair_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Inputs = std::span<const void* const>;
using Outputs = std::span<void* const>;

// One element at a time: what does not fill a vector.
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

// The tree over a number of rows that is known when it is compiled: all of it
// stays in registers.
template <class L, size_t kRows, class T>
HWY_INLINE auto SumOf(Inputs in, size_t at, const T* tag) {
  if constexpr (kRows == 1) {
    return L::Load(static_cast<const T*>(in[0]) + at);
  } else {
    return L::Add(SumOf<L, kRows / 2>(in, at, tag),
                  SumOf<L, kRows / 2>(in.subspan(kRows / 2), at, tag));
  }
}

// ... and over more: trees of eight.
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
HWY_INLINE void FoldAt(Inputs in, Outputs out, size_t at, T factor) {
  const auto sum = L::Scale(TreeOf<L, kRows>(in, at, &factor), factor);
  for (void* const row : out) L::Store(sum, static_cast<T*>(row) + at);
}

// kRows of more than 8: as many as there are.
template <size_t kRows, class T>
void FoldTyped(Inputs in, Outputs out, size_t n, T factor) {
  const size_t lanes = hn::Lanes(hn::ScalableTag<T>());
  size_t at = 0;
  for (; at + lanes <= n; at += lanes) {
    FoldAt<Many<T>, kRows>(in, out, at, factor);
  }
  for (; at < n; ++at) FoldAt<One<T>, kRows>(in, out, at, factor);
}

void FoldPairs(DType dtype, Inputs in, Outputs out, size_t n, double factor) {
  WithWide(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T by = static_cast<T>(factor);
    switch (in.size()) {
      case 1: return FoldTyped<1>(in, out, n, by);
      case 2: return FoldTyped<2>(in, out, n, by);
      case 4: return FoldTyped<4>(in, out, n, by);
      case 8: return FoldTyped<8>(in, out, n, by);
      default: return FoldTyped<16>(in, out, n, by);
    }
  });
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(FoldPairs);

void FoldPairedRows(DType dtype, std::span<const void* const> in,
                    std::span<void* const> out, size_t n, double factor) {
  HWY_DYNAMIC_DISPATCH(FoldPairs)(dtype, in, out, n, factor);
}

}  // namespace lockstep::kernels
#endif  // HWY_ONCE
