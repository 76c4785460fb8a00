// CopyBlocks copies a matrix of blocks from one arrangement in memory to
// another: what gathers, scatters, splits and joins tensors along an axis.
//
//   in   row 0  [b00 .. b01 ..]        out  column 0  [b00 b10 .. ..]
//        row 1  [b10 .. b11 ..]             column 1  [b01 b11 .. ..]
//
// Work:    the calling thread. Dense transposes are PermuteBlocks.
// Bytes:   per byte: reads 1, writes 1.
// Shapes:  any alignment and strides; any number may be 0. Blocks of `out`
//          overlap neither each other nor `in`; a single block may be copied to
//          its own place, which does nothing.
// Threads: any, concurrently on different outputs.
// Errors:  none.
// Run:     build/release/bin/kernels_test --gtest_filter='*CopyBlocks*'

#ifndef LOCKSTEP_KERNELS_BLOCK_COPY_H_
#define LOCKSTEP_KERNELS_BLOCK_COPY_H_

#include <cstddef>

namespace lockstep::kernels {

// rows x columns blocks of `bytes`; the distances of rows and of columns in
// bytes.
struct BlockCopy {
  size_t rows = 1, columns = 1, bytes = 0;
  size_t in_row = 0, in_column = 0, out_row = 0, out_column = 0;

  bool is_empty() const { return rows == 0 || columns == 0 || bytes == 0; }
  bool is_one() const { return rows == 1 && columns == 1; }
};

// A copy between dense matrices that swaps their axes: PermuteBlocks of
// rows x columns blocks. No rows: the copy is another one.
struct AxisSwap {
  size_t rows = 0, columns = 0;
};
constexpr AxisSwap SwapOf(const BlockCopy& c) {
  const bool in_by_row =
      c.in_column == c.bytes && c.in_row == c.columns * c.bytes;
  const bool out_by_column =
      c.out_row == c.bytes && c.out_column == c.rows * c.bytes;
  if (in_by_row && out_by_column) return {c.rows, c.columns};
  const bool in_by_column =
      c.in_row == c.bytes && c.in_column == c.rows * c.bytes;
  const bool out_by_row =
      c.out_column == c.bytes && c.out_row == c.columns * c.bytes;
  if (in_by_column && out_by_row) return {c.columns, c.rows};
  return {};
}

// out block (row, column) = in block (row, column).
void CopyBlocks(const BlockCopy& copy, const void* in, void* out);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_BLOCK_COPY_H_
