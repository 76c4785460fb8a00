// Runs a body on every thread of a launch. launch.cu needs no abseil, and its
// callers need no nvcc.

#ifndef LOCKSTEP_EXAMPLES_DIGITS_DEVICE_LAUNCH_H_
#define LOCKSTEP_EXAMPLES_DIGITS_DEVICE_LAUNCH_H_

#include <cstdint>

#include "examples/digits/device/bodies.h"

struct CUstream_st;

namespace lockstep::digits {

// Enqueues body(0) .. body(n - 1). Returns 0, or the cudaError_t of the launch.
int LaunchBody(const Body<double>& body, int64_t n, CUstream_st* stream);
int LaunchBody(const Body<float>& body, int64_t n, CUstream_st* stream);

}  // namespace lockstep::digits

#endif  // LOCKSTEP_EXAMPLES_DIGITS_DEVICE_LAUNCH_H_
