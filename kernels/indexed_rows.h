// Rows at indices that the memory has, not the call: GatherRows reads them,
// AddRows adds to them.
//
//   indices     [2 0 2]
//   GatherRows  out row r = in row indices[r]
//   AddRows     out row indices[r] += in row r, in the order of r
//
// An index that is no row is an error that the caller finds in `*fault`:
// nothing is read or written outside of the rows. GatherRows then writes zeros
// to that row; AddRows ignores it.
//
// Numerics: each sum is that of kernels/reduce.h and kernels/reduce_any.h of
//           two rows, rounded.
// Work:     the calling thread, rows in order.
// Bytes:    per row: reads its index; GatherRows reads and writes the row;
//           AddRows reads 2 rows and writes 1.
// Shapes:   any number of rows, of any size. GatherRows takes any alignment;
//           AddRows takes rows that are aligned to their element. `in` and
//           `out` do not overlap.
// Threads:  any, concurrently on different outputs and faults.
// Errors:   a dtype without a sum (bool) aborts the process.
// Run:      build/release/bin/kernels_test --gtest_filter='*IndexedRows*'

#ifndef LOCKSTEP_KERNELS_INDEXED_ROWS_H_
#define LOCKSTEP_KERNELS_INDEXED_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "lockstep/dtype.h"

namespace lockstep::kernels {

// Zeros, until a kernel finds an index that is no row. Then that index or, if
// there are several, one of them.
struct alignas(8) IndexFault {
  int32_t found = 0;
  int32_t index = 0;
};

// `rows` rows of `in`, `count` indices and rows of `out`.
void GatherRows(const void* in, size_t rows, const int32_t* indices,
                size_t count, void* out, size_t row_bytes, IndexFault* fault);

// `count` indices and rows of `in`, `rows` rows of `out`, each of
// `row_elements`.
void AddRows(const void* in, const int32_t* indices, size_t count, void* out,
             size_t rows, size_t row_elements, DType dtype, IndexFault* fault);

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_KERNELS_INDEXED_ROWS_H_
