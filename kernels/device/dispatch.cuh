// From a DType known at run time to the kernel of its type, and the shape of
// launches. For kernels/device/*.cu.

#ifndef LOCKSTEP_KERNELS_DEVICE_DISPATCH_CUH_
#define LOCKSTEP_KERNELS_DEVICE_DISPATCH_CUH_

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "kernels/device/launch.h"
#include "kernels/dispatch.h"

namespace lockstep::kernels::device {

inline constexpr unsigned kThreads = 256;  // of a block
inline constexpr unsigned kWarp = 32;
// A grid's first dimension goes no further.
inline constexpr size_t kBlocksMax = 0x7fffffff;

// 16 bytes: what one access of a thread moves at best.
template <class T>
struct alignas(16) Vector {
  static constexpr size_t kLength = 16 / sizeof(T);
  T element[kLength];
};

// How many elements come before the first that begins at 16 bytes.
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

// Blocks for `items` pieces of work that blocks stride over.
inline unsigned BlocksFor(size_t items) {
  constexpr size_t kEnough = 8192;  // keeps every device busy
  const size_t blocks = (items + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < 1         ? 1
                               : blocks < kEnough ? blocks
                                                  : kEnough);
}

// Enqueues `kernel` on `stream`, and returns what came of this launch and of no
// other.
//
// CUDA keeps the last error of each thread. `<<<>>>` tells its own only there,
// where it may be one that the caller made before and has not looked at yet;
// and who takes it away takes the caller's. So the call's own result is asked.
// Of a launch that fails nothing stays there; one that does not leaves what the
// caller has there alone.
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
