#include <cstring>
#include <type_traits>

#include "kernels/any_element.h"
#include "kernels/rows.h"
#include "kernels/targets.h"
#include "kernels/tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sum_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lockstep::kernels::HWY_NAMESPACE {

// `count` elements as their parts: complex numbers are added in parts, so their
// rows are rows of real numbers of twice the length.
template <class T>
using Part = typename std::conditional_t<kIsComplex<T>, ShareOf<T>,
                                         std::type_identity<T>>::type;
template <class T>
constexpr size_t kParts = kIsComplex<T> ? 2 : 1;

template <class T>
HWY_INLINE void WidenParts(const T* src, Wide<T>* wide, size_t n) {
  if constexpr (std::is_same_v<T, Wide<T>>) {
    std::memcpy(wide, src, n * sizeof(T));
  } else if constexpr (kIsHalf<T>) {
    ConvertRow(src, wide, n);
  } else {
    LOCKSTEP_EACH_ALONE
    for (size_t i = 0; i < n; ++i) wide[i] = ToWide(src[i]);
  }
}

template <class T>
HWY_INLINE void AddParts(const T* src, Wide<T>* wide, size_t n) {
  if constexpr (kIsHalf<T>) {
    float row[kTile];
    ConvertRow(src, row, n);
    LOCKSTEP_EACH_ALONE
    for (size_t i = 0; i < n; ++i) wide[i] = Sum(wide[i], row[i]);
  } else if constexpr (std::is_same_v<T, Bool>) {
    LOCKSTEP_EACH_ALONE
    for (size_t i = 0; i < n; ++i) wide[i] = Larger(wide[i], ToWide(src[i]));
  } else {
    LOCKSTEP_EACH_ALONE
    for (size_t i = 0; i < n; ++i) wide[i] = Sum(wide[i], ToWide(src[i]));
  }
}

template <class T>
HWY_INLINE void RoundParts(const Wide<T>* wide, T* dst, size_t n) {
  if constexpr (std::is_same_v<T, Wide<T>>) {
    std::memcpy(dst, wide, n * sizeof(T));
  } else if constexpr (kIsHalf<T>) {
    ConvertRow(wide, dst, n);
  } else {
    LOCKSTEP_EACH_ALONE
    for (size_t i = 0; i < n; ++i) dst[i] = FromWide<T>(wide[i]);
  }
}

// Calls f(std::type_identity<P>{}, parts), P being the type of the elements'
// parts.
template <class F>
void WithParts(DType dtype, size_t n, F f) {
  WithAnyType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    f(std::type_identity<Part<T>>{}, n * kParts<T>);
  });
}

void Widen(DType dtype, const void* src, void* wide, size_t n) {
  WithParts(dtype, n, [&](auto tag, size_t parts) {
    using P = typename decltype(tag)::type;
    WidenParts(static_cast<const P*>(src), static_cast<Wide<P>*>(wide), parts);
  });
}

void Add(DType dtype, const void* src, void* wide, size_t n) {
  WithParts(dtype, n, [&](auto tag, size_t parts) {
    using P = typename decltype(tag)::type;
    AddParts(static_cast<const P*>(src), static_cast<Wide<P>*>(wide), parts);
  });
}

void Round(DType dtype, const void* wide, void* dst, size_t n) {
  WithParts(dtype, n, [&](auto tag, size_t parts) {
    using P = typename decltype(tag)::type;
    RoundParts(static_cast<const Wide<P>*>(wide), static_cast<P*>(dst), parts);
  });
}

}  // namespace lockstep::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::kernels {

HWY_EXPORT(Widen);
HWY_EXPORT(Add);
HWY_EXPORT(Round);

void WidenRow(DType dtype, const void* src, void* wide, size_t n) {
  HWY_DYNAMIC_DISPATCH(Widen)(dtype, src, wide, n);
}
void AddWideRow(DType dtype, const void* src, void* wide, size_t n) {
  HWY_DYNAMIC_DISPATCH(Add)(dtype, src, wide, n);
}
void RoundRow(DType dtype, const void* wide, void* dst, size_t n) {
  HWY_DYNAMIC_DISPATCH(Round)(dtype, wide, dst, n);
}

}  // namespace lockstep::kernels
#endif  // HWY_ONCE
