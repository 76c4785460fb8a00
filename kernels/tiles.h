// Tiles split a long row into pieces that fit the L1 cache, so that halves are
// widened, computed and narrowed without accesses to memory.
//
//   f16 row ──▶ Widened ──▶ f32 tile ──▶ rows.h ──▶ Narrow ──▶ f16 row
//
// Internal to kernels/*.cc. A row that needs no widening is used in place.

#ifndef LOCKSTEP_KERNELS_TILES_H_
#define LOCKSTEP_KERNELS_TILES_H_

#include <cstddef>
#include <type_traits>

#include "kernels/half.h"
#include "kernels/rows.h"

namespace lockstep::kernels {

inline constexpr size_t kTile = 1024;

// Calls f(begin, n) for consecutive pieces, n <= kTile, that cover [0, count).
template <class F>
void ForTiles(size_t count, F&& f) {
  for (size_t begin = 0; begin < count; begin += kTile) {
    f(begin, count - begin < kTile ? count - begin : kTile);
  }
}

// `n` elements as C (float or double): `src` itself, or converted into `tile`.
template <class C, class T>
const C* Widened(const T* src, C* tile, size_t n) {
  if constexpr (std::is_same_v<T, C>) {
    return src;
  } else if constexpr (kIsHalf<T> && std::is_same_v<C, double>) {
    float single[kTile];
    ConvertRow(src, single, n);
    ConvertRow(single, tile, n);
    return tile;
  } else {
    ConvertRow(src, tile, n);
    return tile;
  }
}

// Rounds `n` elements to T, once.
template <class T, class C>
void Narrow(const C* src, T* dst, size_t n) {
  if constexpr (kIsHalf<T> && std::is_same_v<C, double>) {
    float odd[kTile];
    ConvertRowOdd(src, odd, n);
    ConvertRow(odd, dst, n);
  } else {
    ConvertRow(src, dst, n);
  }
}

// dst[i] = round(src[i] * factor); n <= kTile.
template <class C, class From, class To>
void ScaleTile(const From* src, C factor, To* dst, size_t n) {
  C tile[kTile];
  const C* wide = Widened(src, tile, n);
  if constexpr (std::is_same_v<To, C>) {
    ScaleRow(wide, factor, dst, n);
  } else {
    ScaleRow(wide, factor, tile, n);
    Narrow(tile, dst, n);
  }
}

// sum[i] = round(sum[i] + src[i] * weight); n <= kTile.
template <class T>
void AddScaledTile(const T* src, Compute<T> weight, T* sum, size_t n) {
  if constexpr (kIsHalf<T>) {
    float src_tile[kTile];
    float sum_tile[kTile];
    ConvertRow(src, src_tile, n);
    ConvertRow(sum, sum_tile, n);
    AddScaledRow(src_tile, weight, sum_tile, n);
    ConvertRow(sum_tile, sum, n);
  } else {
    AddScaledRow(src, weight, sum, n);
  }
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_TILES_H_
