// PermuteBlocks swaps the two axes of a matrix of blocks. Gather, scatter,
// split and concatenation along any axis of a tensor are this copy, where the
// blocks are what lies behind the axis.
//
//   in   rows = 2, columns = 3     [a0 a1 a2]
//                                  [b0 b1 b2]
//   out  3 x 2                     [a0 b0]
//                                  [a1 b1]
//                                  [a2 b2]      each block is contiguous
//
// Work:    the calling thread. Blocks below a page are copied in tiles, so that
//          the lines of both sides stay in the cache; blocks of 1, 2, 4 and 8
//          bytes are transposed in vectors.
// Bytes:   per byte: reads 1, writes 1.
// Shapes:  any alignment; any number may be 0. `in` and `out` do not overlap.
// Threads: any, concurrently on different outputs.
// Errors:  none.
// Run:     build/release/bin/kernels_test --gtest_filter='*PermuteBlocks*'
// Bench:   ./run bench kernels

#ifndef LOCKSTEP_KERNELS_PERMUTE_BLOCKS_H_
#define LOCKSTEP_KERNELS_PERMUTE_BLOCKS_H_

#include <cstddef>

namespace lockstep::kernels {

// out block (column, row) = in block (row, column): rows x columns blocks of
// block_bytes bytes.
void PermuteBlocks(const void* in, void* out, size_t rows, size_t columns,
                   size_t block_bytes);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_PERMUTE_BLOCKS_H_
