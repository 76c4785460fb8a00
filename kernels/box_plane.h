// The innermost two dimensions of a strided box on the host: the loops that
// copy and fill them.
//
//   runs        columns contiguous on both sides: a row is copied as a whole
//   elements    other columns: loops of constant element size
//
// Internal to kernels/*.cc.
//
// Work:    the calling thread. Runs of at most 64 bytes are copied by two words
//          that may overlap, without a call; powers of two up to 16 bytes, as
//          elements.
// Bytes:   per byte: reads 1, writes 1; FillPlane reads none.
// Threads: any, concurrently on different outputs.
// Errors:  none.

#ifndef LOCKSTEP_KERNELS_BOX_PLANE_H_
#define LOCKSTEP_KERNELS_BOX_PLANE_H_

#include <cstddef>
#include <cstdint>

namespace lockstep::kernels {

// rows x columns elements; all numbers but these are bytes.
struct BoxPlane {
  int64_t element = 0;
  int64_t rows = 1, columns = 1;
  int64_t in_row = 0, in_column = 0, out_row = 0, out_column = 0;

  int64_t count() const { return rows * columns; }
  int64_t row_bytes() const { return columns * element; }
  bool has_in_runs() const { return columns == 1 || in_column == element; }
  bool has_out_runs() const { return columns == 1 || out_column == element; }
  bool is_dense_in() const {
    return has_in_runs() && (rows == 1 || in_row == row_bytes());
  }
  bool is_dense_out() const {
    return has_out_runs() && (rows == 1 || out_row == row_bytes());
  }
};

// out element (row, column) = in element (row, column). An element has 1, 2, 4,
// 8 or 16 bytes.
void CopyPlane(const BoxPlane& plane, const std::byte* in, std::byte* out);

// out element (row, column) = value.
void FillPlane(const BoxPlane& plane, const std::byte* value, std::byte* out);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_BOX_PLANE_H_
