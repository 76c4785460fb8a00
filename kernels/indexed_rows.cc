#include "kernels/indexed_rows.h"

#include <cstring>

#include "base/check.h"
#include "kernels/reduce.h"
#include "kernels/reduce_any.h"

namespace lockstep::kernels {
namespace {

bool IsRow(int32_t index, size_t rows, IndexFault* fault) {
  if (index >= 0 && static_cast<size_t>(index) < rows) return true;
  if (fault->found == 0) *fault = {.found = 1, .index = index};
  return false;
}

}  // namespace

void GatherRows(const void* in, size_t rows, const int32_t* indices,
                size_t count, void* out, size_t row_bytes, IndexFault* fault) {
  const std::byte* const from = static_cast<const std::byte*>(in);
  std::byte* to = static_cast<std::byte*>(out);
  for (size_t r = 0; r < count; ++r, to += row_bytes) {
    const bool is_row = IsRow(indices[r], rows, fault);
    if (row_bytes == 0) continue;
    if (is_row) {
      std::memcpy(to, from + static_cast<size_t>(indices[r]) * row_bytes,
                  row_bytes);
    } else {
      std::memset(to, 0, row_bytes);
    }
  }
}

void AddRows(const void* in, const int32_t* indices, size_t count, void* out,
             size_t rows, size_t row_elements, DType dtype, IndexFault* fault) {
  Check(dtype != DType::kBool, "a bool has no sum");
  const size_t row_bytes = row_elements * SizeOf(dtype);
  for (size_t r = 0; r < count; ++r) {
    if (!IsRow(indices[r], rows, fault)) continue;
    std::byte* const sum = static_cast<std::byte*>(out) +
                           static_cast<size_t>(indices[r]) * row_bytes;
    const void* const both[] = {
        sum, static_cast<const std::byte*>(in) + r * row_bytes};
    if (IsTransportDType(dtype)) {
      ReduceRanks(both, sum, row_elements, dtype, ReduceOp::kSum);
    } else {
      ReduceAny(both, sum, row_elements, dtype, ReduceOp::kSum);
    }
  }
}

}  // namespace lockstep::kernels
