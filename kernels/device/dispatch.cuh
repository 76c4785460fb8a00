// Dispatch from a DType known at run time to the kernel of its type; grid
// sizes; LaunchKernel. Internal to kernels/device/*.cu.

#ifndef LOCKSTEP_KERNELS_DEVICE_DISPATCH_CUH_
#define LOCKSTEP_KERNELS_DEVICE_DISPATCH_CUH_

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/device/launch.h"
#include "kernels/dispatch.h"

namespace lockstep::kernels::device {

inline constexpr unsigned kThreads = 256;  // per block
inline constexpr unsigned kWarp = 32;
// The limit of a grid's first dimension.
inline constexpr size_t kBlocksMax = 0x7fffffff;

// 16 bytes: the widest access of a thread.
template <class T>
struct alignas(16) Vector {
  static constexpr size_t kLength = 16 / sizeof(T);
  T element[kLength];
};

// The number of elements before the first 16-byte boundary, at most `count`.
template <class T>
__device__ __forceinline__ size_t Head(const T* data, size_t count) {
  const size_t past = reinterpret_cast<uintptr_t>(data) % sizeof(Vector<T>);
  const size_t head = past == 0 ? 0 : (sizeof(Vector<T>) - past) / sizeof(T);
  return head < count ? head : count;
}

template <class A, class B>
__device__ __forceinline__ bool AlignedAlike(const A* a, const B* b) {
  return sizeof(A) == sizeof(B) && reinterpret_cast<uintptr_t>(a) % 16 ==
                                       reinterpret_cast<uintptr_t>(b) % 16;
}

// The number of blocks for `items` items in a grid-stride loop.
inline unsigned BlocksFor(size_t items) {
  constexpr size_t kEnough = 8192;  // fills every device
  const size_t blocks = (items + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < 1         ? 1
                               : blocks < kEnough ? blocks
                                                  : kEnough);
}

// Enqueues `kernel` on `stream`; returns the result of this launch only.
//
// CUDA keeps the last error of each thread. `<<<>>>` reports its error only
// there, where an earlier error of the caller may be pending; clearing it would
// hide the caller's error. So this uses the result of cudaLaunchKernel. If the
// launch fails, it clears the error that the launch left. Otherwise a pending
// error of the caller stays.
template <class... Parameters>
Launched LaunchKernel(void (*kernel)(Parameters...), unsigned blocks,
                      unsigned threads, Stream stream,
                      const std::type_identity_t<Parameters>&... arguments) {
  void* pointers[] = {
      const_cast<void*>(static_cast<const void*>(&arguments))...};
  const cudaError_t launched =
      cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(blocks),
                       dim3(threads), pointers, 0, stream);
  if (launched != cudaSuccess) (void)cudaGetLastError();
  return static_cast<Launched>(launched);
}

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_DISPATCH_CUH_
