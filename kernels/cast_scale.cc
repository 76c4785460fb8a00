#include "kernels/cast_scale.h"

#include <type_traits>

#include "kernels/dispatch.h"
#include "kernels/tiles.h"

namespace lockstep::kernels {

void CastScale(const void* src, DType src_dtype, double factor, void* dst,
               DType dst_dtype, size_t count) {
  WithFloat(src_dtype, [&](auto from) {
    WithFloat(dst_dtype, [&](auto to) {
      using From = typename decltype(from)::type;
      using To = typename decltype(to)::type;
      using C = std::common_type_t<Compute<From>, Compute<To>>;
      const From* in = static_cast<const From*>(src);
      To* out = static_cast<To*>(dst);
      ForTiles(count, [&](size_t begin, size_t n) {
        ScaleTile(in + begin, static_cast<C>(factor), out + begin, n);
      });
    });
  });
}

}  // namespace lockstep::kernels
