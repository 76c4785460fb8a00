// WriteFlags on the device, with the same bits as kernels/flags.h.
//
// Threads: one block of 256 per launch of up to 1,024 flags.
// Bytes:   per flag: 1 of kernel parameters, writes one element.
// Run:     build/gpu-bundle/run device_kernels_test
//
// `on` is in host memory and copied during the call. launch.h has the rules of
// every launch.

#ifndef LOCKSTEP_KERNELS_DEVICE_FLAGS_H_
#define LOCKSTEP_KERNELS_DEVICE_FLAGS_H_

#include <cstdint>
#include <span>

#include "kernels/device/launch.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels::device {

Launched WriteFlags(std::span<const uint8_t> on, DType dtype, void* flags,
                    Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_FLAGS_H_
