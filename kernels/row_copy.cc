#include "kernels/row_copy.h"

#include <cstring>

#include "kernels/copy.h"

namespace lockstep::kernels {

void CopyRows(std::span<const RowRange> ranges, const void* in, void* out,
              size_t row_bytes) {
  const std::byte* from = static_cast<const std::byte*>(in);
  std::byte* to = static_cast<std::byte*>(out);
  for (const RowRange& range : ranges) {
    if (range.rows * row_bytes == 0) continue;
    Copy(to + range.out_row * row_bytes, from + range.in_row * row_bytes,
         range.rows * row_bytes);
  }
}

void ZeroRows(std::span<const RowRange> ranges, void* out, size_t row_bytes) {
  std::byte* to = static_cast<std::byte*>(out);
  for (const RowRange& range : ranges) {
    if (range.rows * row_bytes == 0) continue;
    std::memset(to + range.out_row * row_bytes, 0, range.rows * row_bytes);
  }
}

}  // namespace lockstep::kernels
