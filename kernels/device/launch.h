// The rules of every kernel launch. Compiles without CUDA.
//
// A launch enqueues on `stream` and returns. It never synchronises and does not
// allocate. All pointers are to memory that the device can access, which must
// stay valid until the stream has passed the launch.
//
// Threads: any; one stream by one thread at a time.
// Errors:  returns kLaunched or the error code of the CUDA runtime, which the
//          caller converts to a status. The code is this launch's own; it does
//          not stay in the thread's last error. An earlier pending error of the
//          thread stays and is not reported. A wrong argument aborts the
//          process as it does on the host.

#ifndef LOCKSTEP_KERNELS_DEVICE_LAUNCH_H_
#define LOCKSTEP_KERNELS_DEVICE_LAUNCH_H_

struct CUstream_st;

namespace lockstep::kernels::device {

using Stream = CUstream_st*;  // cudaStream_t

using Launched = int;  // cudaError_t
inline constexpr Launched kLaunched = 0;

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_LAUNCH_H_
