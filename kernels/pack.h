// Pack and unpack: many tensors into one contiguous bucket and back.
//
//   tensors  [g0 ][g1      ][g2 ]      anywhere
//              │      │       │  × weight, or added to what is there
//   bucket   [g0 |g1      |g2 ]        one buffer, one collective
//              │      │       │  × factor
//   tensors  [g0 ][g1      ][g2 ]
//
// slots.h says where each tensor lies. Bucket elements that no slot names are
// neither read nor written. Tensors and bucket are of one dtype; weights and
// factors are rounded to f32 first, except for f64. Every product and every sum
// is computed in f32 (f64 for f64) and rounded by itself, the result then to
// the dtype once; NaN and infinity come through.
//
// Shapes:  all counts are elements; pointers are aligned to their element, no
//          more. Neither tensors nor bucket may overlap each other.
// Dtypes:  copies and Zero take all ten, whatever multiplies only the floats.
// Threads: any, at the same time on different buckets and tensors.
// Errors:  slots out of order, or a dtype as above, end the process.

#ifndef LOCKSTEP_KERNELS_PACK_H_
#define LOCKSTEP_KERNELS_PACK_H_

#include <span>

#include "kernels/slots.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels {

// bucket = tensor, the same bits.
void Pack(std::span<const TensorSlot> slots, DType dtype, void* bucket);

// bucket = tensor * weight. The first micro-batch of a step.
void PackScaled(std::span<const TensorSlot> slots, DType dtype, double weight,
                void* bucket);

// bucket = bucket + tensor * weight. The micro-batches after it.
void PackAdded(std::span<const TensorSlot> slots, DType dtype, double weight,
               void* bucket);

// tensor = bucket, the same bits.
void Unpack(const void* bucket, std::span<const TensorSlot> slots, DType dtype);

// tensor = bucket * factor.
void UnpackScaled(const void* bucket, std::span<const TensorSlot> slots,
                  DType dtype, double factor);

// bucket = bucket * factor, in the slots only; their tensors are not touched.
void ScaleSlots(void* bucket, std::span<const TensorSlot> slots, DType dtype,
                double factor);

// bucket = 0, in the slots only: what a parameter without gradient contributes.
void ZeroSlots(void* bucket, std::span<const TensorSlot> slots, DType dtype);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_PACK_H_
