// Pack and unpack copy many tensors into one contiguous bucket and back.
//
//   tensors  [g0 ][g1      ][g2 ]      at any addresses
//              │      │       │  × weight, or added to the bucket
//   bucket   [g0 |g1      |g2 ]        one buffer, one collective
//              │      │       │  × factor
//   tensors  [g0 ][g1      ][g2 ]
//
// Slots (slots.h) map each tensor to its range of the bucket. Bucket elements
// outside all slots are neither read nor written. Tensors and bucket have one
// dtype. Weights and factors are rounded to f32 first, except for f64. Each
// product and each sum is computed in f32 (f64 for f64) and rounded separately;
// the result is rounded to the dtype once. NaN and infinity are kept.
//
// Work:    the calling thread, chunks of the bucket in order.
// Bytes:   per element: reads 1 and writes 1 element; PackAdded reads 2;
//          ZeroSlots reads none.
// Shapes:  all counts are elements; pointers are aligned to their element.
//          Tensors and bucket do not overlap.
// Dtypes:  Pack, Unpack and ZeroSlots take all ten, the other functions only
//          floats.
// Threads: any, concurrently on different buckets and tensors.
// Errors:  slots out of order, or another dtype, abort the process.
// Run:     build/release/bin/kernels_test --gtest_filter='Pack*'
// Bench:   ./run bench kernels

#ifndef LOCKSTEP_KERNELS_PACK_H_
#define LOCKSTEP_KERNELS_PACK_H_

#include <span>

#include "kernels/slots.h"
#include "lockstep/dtype.h"

namespace lockstep::kernels {

// bucket = tensor, bit for bit.
void Pack(std::span<const TensorSlot> slots, DType dtype, void* bucket);

// bucket = tensor * weight, for the first micro-batch of a step.
void PackScaled(std::span<const TensorSlot> slots, DType dtype, double weight,
                void* bucket);

// bucket = bucket + tensor * weight, for the later micro-batches.
void PackAdded(std::span<const TensorSlot> slots, DType dtype, double weight,
               void* bucket);

// tensor = bucket, bit for bit.
void Unpack(const void* bucket, std::span<const TensorSlot> slots, DType dtype);

// tensor = bucket * factor.
void UnpackScaled(const void* bucket, std::span<const TensorSlot> slots,
                  DType dtype, double factor);

// bucket = bucket * factor, in the slots only. Does not access the tensors.
void ScaleSlots(void* bucket, std::span<const TensorSlot> slots, DType dtype,
                double factor);

// bucket = 0, in the slots only: the contribution of a parameter without a
// gradient.
void ZeroSlots(void* bucket, std::span<const TensorSlot> slots, DType dtype);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_PACK_H_
