#include "kernels/device/arg_extremum.h"
#include "kernels/device/elementwise.cuh"
#include "kernels/extremum_element.h"

namespace lockstep::kernels::device {
namespace {

template <class T>
struct MarkAs {
  int32_t index;
  __device__ int32_t operator()(T value, T extremum) const {
    return Mark(value, extremum, index);
  }
};

}  // namespace

Launched MarkExtremum(const void* values, const void* extrema, int32_t* out,
                      size_t count, DType dtype, int32_t index, Stream stream) {
  Launched launched = kLaunched;
  WithOrderedType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launched = LaunchOnElements(MarkAs<T>{index}, count, stream, out,
                                static_cast<const T*>(values),
                                static_cast<const T*>(extrema));
  });
  return launched;
}

}  // namespace lockstep::kernels::device
