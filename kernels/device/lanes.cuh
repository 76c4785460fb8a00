// The split of many small ranges of words among threads: each range has as many
// adjacent threads (lanes) as the next power of two of its words, at most a
// whole block.
//
//   5 words a range:  8 lanes, 32 ranges for each block of 256 threads
//
// Internal to kernels/device/*.cu.

#ifndef LOCKSTEP_KERNELS_DEVICE_LANES_CUH_
#define LOCKSTEP_KERNELS_DEVICE_LANES_CUH_

#include <cstddef>

#include "kernels/device/dispatch.cuh"

namespace lockstep::kernels::device {

// log2 of the lanes for ranges of `words`.
inline unsigned LanesLog2(size_t words) {
  unsigned log2 = 0;
  while ((size_t{1} << log2) < words && (1u << log2) < kThreads) ++log2;
  return log2;
}

inline unsigned BlocksForRanges(size_t ranges, unsigned lanes_log2) {
  const size_t per_block = kThreads >> lanes_log2;
  return BlocksFor((ranges + per_block - 1) / per_block * kThreads);
}

// Calls f(range, lane) for the ranges of this thread.
template <class F>
__device__ __forceinline__ void ForRanges(size_t ranges, unsigned lanes_log2,
                                          F f) {
  const unsigned lane = threadIdx.x & ((1u << lanes_log2) - 1);
  const size_t per_block = kThreads >> lanes_log2;
  const size_t stride = gridDim.x * per_block;
  for (size_t range = blockIdx.x * per_block + (threadIdx.x >> lanes_log2);
       range < ranges; range += stride) {
    f(range, lane);
  }
}

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_LANES_CUH_
