// CopyBlocks on the device, with the same bytes as kernels/block_copy.h.
//
//   transposes of words   PermuteBlocks, in tiles
//   other copies          the lanes of a block copy its words: a power of two
//                         of adjacent threads, so that small blocks share a
//                         warp and nothing is divided per word
//
// Word:    the widest of 1, 2, 4, 8 and 16 bytes to which both addresses, all
//          strides in use and the block are aligned.
// Threads: 256 per block of threads, grid-stride, at most 8192.
// Bytes:   per byte: reads 1, writes 1.
// Run:     build/gpu-bundle/run device_kernels_test
//
// launch.h has the rules of every launch.

#ifndef LOCKSTEP_KERNELS_DEVICE_BLOCK_COPY_H_
#define LOCKSTEP_KERNELS_DEVICE_BLOCK_COPY_H_

#include "kernels/block_copy.h"
#include "kernels/device/launch.h"

namespace lockstep::kernels::device {

Launched CopyBlocks(const BlockCopy& copy, const void* in, void* out,
                    Stream stream);

}  // namespace lockstep::kernels::device

#endif  // LOCKSTEP_KERNELS_DEVICE_BLOCK_COPY_H_
