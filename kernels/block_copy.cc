#include "kernels/block_copy.h"

#include <cstring>

#include "kernels/permute_blocks.h"

namespace lockstep::kernels {

void CopyBlocks(const BlockCopy& c, const void* in, void* out) {
  if (c.is_empty() || (c.is_one() && in == out)) return;
  if (c.is_one()) {
    std::memcpy(out, in, c.bytes);
    return;
  }
  if (const AxisSwap swap = SwapOf(c); swap.rows > 0) {
    return PermuteBlocks(in, out, swap.rows, swap.columns, c.bytes);
  }
  const std::byte* const from = static_cast<const std::byte*>(in);
  std::byte* const to = static_cast<std::byte*>(out);
  for (size_t column = 0; column < c.columns; ++column) {
    for (size_t row = 0; row < c.rows; ++row) {
      std::memcpy(to + row * c.out_row + column * c.out_column,
                  from + row * c.in_row + column * c.in_column, c.bytes);
    }
  }
}

}  // namespace lockstep::kernels
