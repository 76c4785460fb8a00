// The slices of kernels/slices.h on the device, with the same bytes (but where
// slices that are written overlap); one launch for up to 1,024 slices.
// StoreList writes numbers of the host, such as offsets, to device memory.
//
// Word:    the widest of 1, 2, 4, 8 and 16 bytes to which both addresses and
//          row_bytes are aligned.
// Threads: 256 per block; as many blocks for each slice as the longest has
//          turns of 16384 words, if the grid has room.
// Bytes:   per byte: reads 1, writes 1; ZeroSlices reads none.
// Run:     build/gpu-bundle/run device_kernels_test
//
// `sizes` and `list` are in host memory and copied during the call; the offsets
// are in device memory and read when the kernel runs. launch.h has the rules of
// every launch.

#ifndef LOCKSTEP_KERNELS_DEVICE_SLICES_H_
#define LOCKSTEP_KERNELS_DEVICE_SLICES_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/device/launch.h"
#include "kernels/slices.h"

namespace lockstep::kernels::device {

Launched PackSlices(std::span<const int64_t> sizes, const int64_t* offsets,
                    const void* tensor, size_t tensor_rows, void* packed,
                    size_t row_bytes, Stream stream);
Launched UnpackSlices(std::span<const int64_t> sizes, const int64_t* offsets,
                      const void* packed, void* tensor, size_t tensor_rows,
                      size_t row_bytes, Stream stream);
Launched ZeroSlices(std::span<const int64_t> sizes, const int64_t* offsets,
                    void* tensor, size_t tensor_rows, size_t row_bytes,
                    Stream stream);

Launched StoreList(std::span<const int64_t> list, int64_t* out, Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_SLICES_H_
