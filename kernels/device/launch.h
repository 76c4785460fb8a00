// What every kernel's launch has in common. Compiles without CUDA.
//
// A launch enqueues on `stream` and returns; it never synchronises and takes no
// memory. All pointers are to memory that the device can reach, and must stay
// until the stream has passed the launch.
//
// Threads: any; one stream by one thread at a time.
// Errors:  kLaunched, or the code of the CUDA runtime's error, which the caller
//          turns into a status at its border: the launch's own, of which the
//          thread's last error keeps nothing. An error that was there before
//          stays there and is not taken for the launch's. A wrong argument ends
//          the process as it does on the host.

#ifndef LOCKSTEP_KERNELS_DEVICE_LAUNCH_H_
#define LOCKSTEP_KERNELS_DEVICE_LAUNCH_H_

struct CUstream_st;

namespace lockstep::kernels::device {

using Stream = CUstream_st*;  // cudaStream_t

using Launched = int;  // cudaError_t
inline constexpr Launched kLaunched = 0;

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_LAUNCH_H_
