#include "kernels/device/dispatch.cuh"
#include "kernels/device/flags.h"
#include "kernels/device/lists.cuh"

namespace lockstep::kernels::device {
namespace {

template <class T, size_t kCapacity>
__global__ void __launch_bounds__(kThreads)
    Write(const __grid_constant__ List<uint8_t, kCapacity> on, T* flags) {
  for (unsigned i = threadIdx.x; i < on.size; i += kThreads) {
    flags[i] = ConvertTo<T>(on.items[i] == 0 ? 0.0f : 1.0f);
  }
}

}  // namespace

Launched WriteFlags(std::span<const uint8_t> on, DType dtype, void* flags,
                    Stream stream) {
  Launched launched = kLaunched;
  WithFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = static_cast<T*>(flags);
    launched = ForLists(on, [&](const auto& list) {
      T* const part = to;
      to += list.size;
      return LaunchKernel(Write<T, kItemsMaxOf<decltype(list)>>, 1, kThreads,
                          stream, list, part);
    });
  });
  return launched;
}

}  // namespace lockstep::kernels::device
