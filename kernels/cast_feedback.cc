#include "kernels/cast_feedback.h"

#include <algorithm>

#include "kernels/dispatch.h"
#include "kernels/tiles.h"

namespace lockstep::kernels {
namespace {

template <class From, class To>
void FeedbackTile(const From* src, const From* residual, To* dst, From* next,
                  size_t n) {
  From sum[kTile];
  From tile[kTile];
  std::copy_n(residual, n, sum);
  AddScaledRow(src, From{1}, sum, n);
  Narrow(sum, dst, n);
  AddScaledRow(Widened(dst, tile, n), From{-1}, sum, n);
  std::copy_n(sum, n, next);
}

}  // namespace

void CastFeedback(const void* src, const void* residual, DType src_dtype,
                  void* dst, DType dst_dtype, void* next, size_t count) {
  WithWide(src_dtype, [&](auto from) {
    WithHalf(dst_dtype, [&](auto to) {
      using From = typename decltype(from)::type;
      using To = typename decltype(to)::type;
      ForTiles(count, [&](size_t begin, size_t n) {
        FeedbackTile(static_cast<const From*>(src) + begin,
                     static_cast<const From*>(residual) + begin,
                     static_cast<To*>(dst) + begin,
                     static_cast<From*>(next) + begin, n);
      });
    });
  });
}

}  // namespace lockstep::kernels
