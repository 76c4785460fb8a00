// kernels/flags.h on the device. The list is the host's and is copied in the
// call; launch.h says what else holds.

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
