// Copies of blocks of all kinds of arrangement, for the tests of host and
// device.

#ifndef LOCKSTEP_TESTS_KERNELS_BLOCK_COPIES_H_
#define LOCKSTEP_TESTS_KERNELS_BLOCK_COPIES_H_

#include <string>
#include <vector>

#include "kernels/block_copy.h"

namespace lockstep::kernels {

// A copy, and the bytes of memory that its sides need.
struct PlacedCopy {
  BlockCopy copy;
  size_t in_bytes = 0, out_bytes = 0;
};

// Dense rows to dense columns, the other way round, and both with gaps.
inline std::vector<PlacedCopy> BlockCopies() {
  std::vector<PlacedCopy> copies;
  for (size_t rows : {0, 1, 3, 9, 40}) {
    for (size_t columns : {1, 2, 8, 33}) {
      for (size_t bytes : {0, 1, 4, 6, 8, 16, 48, 5000}) {
        for (size_t gap : {0, 1, 16}) {
          const size_t by_row = columns * bytes + gap;
          const size_t by_column = rows * bytes + gap;
          const BlockCopy to_columns{.rows = rows,
                                     .columns = columns,
                                     .bytes = bytes,
                                     .in_row = by_row,
                                     .in_column = bytes,
                                     .out_row = bytes,
                                     .out_column = by_column};
          const BlockCopy to_rows{.rows = rows,
                                  .columns = columns,
                                  .bytes = bytes,
                                  .in_row = bytes,
                                  .in_column = by_column,
                                  .out_row = by_row,
                                  .out_column = bytes};
          copies.push_back({to_columns, rows * by_row, columns * by_column});
          copies.push_back({to_rows, columns * by_column, rows * by_row});
        }
      }
    }
  }
  // One large block: of many threads' words, and of less.
  copies.push_back({{.bytes = 1 << 20}, 1 << 20, 1 << 20});
  copies.push_back({{.bytes = 100'001}, 100'001, 100'001});
  return copies;
}

inline std::string Describe(const BlockCopy& c) {
  std::string text;
  for (const size_t n : {c.rows, c.columns, c.bytes, c.in_row, c.in_column,
                         c.out_row, c.out_column}) {
    text += std::to_string(n) + " ";
  }
  return text;
}

}  // namespace lockstep::kernels

#endif  // LOCKSTEP_TESTS_KERNELS_BLOCK_COPIES_H_
