#include "kernels/device/divide.h"
#include "kernels/device/elementwise.cuh"
#include "kernels/divide_element.h"

namespace lockstep::kernels::device {
namespace {

template <class T>
struct DivideBy {
  Wide<T> divisor;
  __device__ T operator()(T value) const { return Quotient(value, divisor); }
};

}  // namespace

Launched Divide(const void* in, void* out, size_t count, DType dtype,
                int divisor, Stream stream) {
  Check(divisor != 0, "a division by 0");
  Launched launched = kLaunched;
  WithParts(dtype, [&](auto tag, size_t length) {
    using T = typename decltype(tag)::type;
    launched = LaunchOnElements(DivideBy<T>{static_cast<Wide<T>>(divisor)},
                                count * length, stream, static_cast<T*>(out),
                                static_cast<const T*>(in));
  });
  return launched;
}

}  // namespace lockstep::kernels::device
