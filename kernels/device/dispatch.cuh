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

inline Launched LastLaunch() { return static_cast<int>(cudaPeekAtLastError()); }

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_DISPATCH_CUH_
