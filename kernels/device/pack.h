// kernels/pack.h on the device: the same bits, one launch for up to 1,024
// tensors.
//
//   block k ── chunk k of the bucket: 16384 elements
//              ├─ piece of g0   16-byte accesses where tensor and bucket are
//              ├─ g1            aligned alike, else element by element
//              └─ g2 (part)
//
// The list of slots is the host's and is copied in the call; tensors and bucket
// are the device's. launch.h says what holds for every function here.

#ifndef LOCKSTEP_KERNELS_DEVICE_PACK_H_
#define LOCKSTEP_KERNELS_DEVICE_PACK_H_

#include <span>

#include "kernels/device/launch.h"
#include "kernels/slots.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels::device {

using Slots = std::span<const TensorSlot>;

Launched Pack(Slots slots, DType dtype, void* bucket, Stream stream);
Launched PackScaled(Slots slots, DType dtype, double weight, void* bucket,
                    Stream stream);
Launched PackAdded(Slots slots, DType dtype, double weight, void* bucket,
                   Stream stream);
Launched Unpack(const void* bucket, Slots slots, DType dtype, Stream stream);
Launched UnpackScaled(const void* bucket, Slots slots, DType dtype,
                      double factor, Stream stream);
Launched ScaleSlots(void* bucket, Slots slots, DType dtype, double factor,
                    Stream stream);
Launched ZeroSlots(void* bucket, Slots slots, DType dtype, Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_PACK_H_
