// Pack and unpack on the device, with the same bits as kernels/pack.h; one
// launch for up to 1,024 tensors.
//
//   block k ── chunk k of the bucket: 16384 elements
//              ├─ piece of g0   16-byte accesses if tensor and bucket have the
//              ├─ g1            same alignment, else element by element
//              └─ g2 (part)
//
// Threads: one block of 256 per chunk; adjacent threads take adjacent vectors.
// Bytes:   per element: reads 1 and writes 1 element; PackAdded reads 2;
//          ZeroSlots reads none.
// Run:     build/gpu-bundle/run device_kernels_test
// Bench:   build/gpu-bundle/run gpu_kernels_bench
//
// `slots` is in host memory and copied during the call; tensors and bucket are
// in device memory. launch.h has the rules of every launch.

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
