#include "kernels/device/elementwise.cuh"
#include "kernels/device/widen.h"
#include "kernels/widen_element.h"

namespace lockstep::kernels::device {
namespace {

template <class From>
struct WidenElement {
  __device__ int32_t operator()(From value) const { return ToI32(value); }
};

template <class To>
struct NarrowElement {
  __device__ To operator()(int32_t value) const { return FromI32<To>(value); }
};

template <class From>
struct ToNearestF32 {
  __device__ float operator()(From value) const { return RoundedToF32(value); }
};

}  // namespace

Launched WidenToI32(const void* in, int32_t* out, size_t count, DType from,
                    Stream stream) {
  Launched launched = kLaunched;
  WithNarrowInteger(from, [&](auto tag) {
    using From = typename decltype(tag)::type;
    launched = LaunchOnElements(WidenElement<From>(), count, stream, out,
                                static_cast<const From*>(in));
  });
  return launched;
}

Launched NarrowFromI32(const int32_t* in, void* out, size_t count, DType to,
                       Stream stream) {
  Launched launched = kLaunched;
  WithNarrowInteger(to, [&](auto tag) {
    using To = typename decltype(tag)::type;
    launched = LaunchOnElements(NarrowElement<To>(), count, stream,
                                static_cast<To*>(out), in);
  });
  return launched;
}

Launched ConvertToF32(const void* in, float* out, size_t count, DType from,
                      Stream stream) {
  Launched launched = kLaunched;
  WithIntegerOrF32(from, [&](auto tag) {
    using From = typename decltype(tag)::type;
    launched = LaunchOnElements(ToNearestF32<From>(), count, stream, out,
                                static_cast<const From*>(in));
  });
  return launched;
}

}  // namespace lockstep::kernels::device
