// PermuteBlocks on the device, with the same bytes as kernels/permute_blocks.h.
//
//   blocks of one word    tiles of 32 x 32 through shared memory: a warp reads
//                         32 adjacent blocks of a row and writes 32 adjacent
//                         blocks of a column
//   other blocks, or      a thread copies a word; adjacent threads write
//   fewer than 8 rows     adjacent words
//   or columns
//
// Word:    the widest of 1, 2, 4, 8 and 16 bytes to which both addresses and
//          block_bytes are aligned.
// Threads: 256 per block, grid-stride over tiles or words, at most 8192 blocks.
// Bytes:   per byte: reads 1, writes 1.
// Run:     build/gpu-bundle/run device_kernels_test
//
// launch.h has the rules of every launch.

#ifndef LOCKSTEP_KERNELS_DEVICE_PERMUTE_BLOCKS_H_
#define LOCKSTEP_KERNELS_DEVICE_PERMUTE_BLOCKS_H_

#include <cstddef>

#include "kernels/device/launch.h"

namespace lockstep::kernels::device {

Launched PermuteBlocks(const void* in, void* out, size_t rows, size_t columns,
                       size_t block_bytes, Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_PERMUTE_BLOCKS_H_
