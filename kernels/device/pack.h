// kernels/pack.h on the device: the same bits, one launch for all tensors.
//
//   block k ── chunk k of the bucket: 16384 elements
//              ├─ piece of g0   16-byte accesses where tensor and bucket are
//              ├─ g1            aligned alike, else element by element
//              └─ g2 (part)
//
// launch.h says what holds for every function here.

#ifndef LOCKSTEP_KERNELS_DEVICE_PACK_H_
#define LOCKSTEP_KERNELS_DEVICE_PACK_H_

#include <cstddef>

#include "kernels/device/launch.h"
#include "kernels/slots.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels::device {

// Slots whose list and tensors lie in the device's memory. Made once for a
// bucket: `chunks` is ChunksOf the same list on the host, where its order was
// checked (InOrder).
struct SlotTable {
  const Slot* slots = nullptr;
  size_t count = 0;
  ChunkRange chunks = {0, 0};
};

Launched Pack(const SlotTable& table, DType dtype, void* bucket, Stream stream);
Launched PackScaled(const SlotTable& table, DType dtype, double weight,
                    void* bucket, Stream stream);
Launched PackAdded(const SlotTable& table, DType dtype, double weight,
                   void* bucket, Stream stream);
Launched Unpack(const void* bucket, const SlotTable& table, DType dtype,
                Stream stream);
Launched UnpackScaled(const void* bucket, const SlotTable& table, DType dtype,
                      double factor, Stream stream);
Launched ScaleSlots(void* bucket, const SlotTable& table, DType dtype,
                    double factor, Stream stream);
Launched ZeroSlots(void* bucket, const SlotTable& table, DType dtype,
                   Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_PACK_H_
