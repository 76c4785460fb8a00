// CopyRows copies ranges of rows: the transfers of ragged collectives, whose
// slices have any lengths.
//
//   in    [.. a0 a1 a2 .. b0 ..]      {in_row 2, out_row 0, rows 3}
//             │           │           {in_row 7, out_row 5, rows 1}
//   out   [a0 a1 a2 .. .. b0 ..]      rows outside all ranges stay as they are
//
// Work:    the calling thread, ranges in order.
// Bytes:   per byte: reads 1, writes 1; ZeroRows reads none.
// Shapes:  any alignment. Empty ranges and rows of 0 bytes are allowed. Ranges
//          of `out` overlap neither each other nor ranges of `in`.
// Threads: any, concurrently on different outputs.
// Errors:  none: the ranges are the caller's to check.
// Run:     build/release/bin/kernels_test --gtest_filter='*Rows*'

#ifndef LOCKSTEP_KERNELS_ROW_COPY_H_
#define LOCKSTEP_KERNELS_ROW_COPY_H_

#include <cstddef>
#include <span>

namespace lockstep::kernels {

struct RowRange {
  size_t in_row;  // the first row; ZeroRows ignores it
  size_t out_row;
  size_t rows;
};

// out row (out_row + i) = in row (in_row + i), for i < rows, for each range.
void CopyRows(std::span<const RowRange> ranges, const void* in, void* out,
              size_t row_bytes);

// out row (out_row + i) = 0, for i < rows, for each range.
void ZeroRows(std::span<const RowRange> ranges, void* out, size_t row_bytes);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_ROW_COPY_H_
