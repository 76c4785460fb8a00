// LOCKSTEP_HD marks arithmetic that host and device share, so that a kernel and
// its host twin compute the same bits. Without nvcc it is only "inline".
// LOCKSTEP_UNROLL unrolls the loop after it on a device, so that its arrays are
// registers.

#ifndef LOCKSTEP_KERNELS_HOST_DEVICE_H_
#define LOCKSTEP_KERNELS_HOST_DEVICE_H_

#ifdef __CUDACC__
#define LOCKSTEP_HD __host__ __device__ __forceinline__
#define LOCKSTEP_UNROLL _Pragma("unroll")
#else
// Always inlined: otherwise a loop compiled for a newer CPU would call a
// function compiled for any CPU.
#define LOCKSTEP_HD [[gnu::always_inline]] inline
#define LOCKSTEP_UNROLL
#endif

#endif  // LOCKSTEP_KERNELS_HOST_DEVICE_H_
