#include "kernels/slices.h"

#include <cstring>

namespace lockstep::kernels {
namespace {

// Calls f(position in bytes of packed, in bytes of the tensor, bytes, within).
template <class F>
void ForSlices(std::span<const int64_t> sizes, const int64_t* offsets,
               size_t tensor_rows, size_t row_bytes, F f) {
  size_t packed = 0;
  for (size_t s = 0; s < sizes.size(); ++s) {
    const size_t bytes = static_cast<size_t>(sizes[s]) * row_bytes;
    const bool within =
        IsSliceWithin(offsets[s], sizes[s], static_cast<int64_t>(tensor_rows));
    const size_t at = within ? static_cast<size_t>(offsets[s]) * row_bytes : 0;
    if (bytes > 0) f(packed, at, bytes, within);
    packed += bytes;
  }
}

}  // namespace

void PackSlices(std::span<const int64_t> sizes, const int64_t* offsets,
                const void* tensor, size_t tensor_rows, void* packed,
                size_t row_bytes) {
  const std::byte* const from = static_cast<const std::byte*>(tensor);
  std::byte* const to = static_cast<std::byte*>(packed);
  ForSlices(sizes, offsets, tensor_rows, row_bytes,
            [&](size_t in_packed, size_t at, size_t bytes, bool within) {
              if (within) {
                std::memcpy(to + in_packed, from + at, bytes);
              } else {
                std::memset(to + in_packed, 0, bytes);
              }
            });
}

void UnpackSlices(std::span<const int64_t> sizes, const int64_t* offsets,
                  const void* packed, void* tensor, size_t tensor_rows,
                  size_t row_bytes) {
  const std::byte* const from = static_cast<const std::byte*>(packed);
  std::byte* const to = static_cast<std::byte*>(tensor);
  ForSlices(sizes, offsets, tensor_rows, row_bytes,
            [&](size_t in_packed, size_t at, size_t bytes, bool within) {
              if (within) std::memcpy(to + at, from + in_packed, bytes);
            });
}

void ZeroSlices(std::span<const int64_t> sizes, const int64_t* offsets,
                void* tensor, size_t tensor_rows, size_t row_bytes) {
  std::byte* const to = static_cast<std::byte*>(tensor);
  ForSlices(sizes, offsets, tensor_rows, row_bytes,
            [&](size_t, size_t at, size_t bytes, bool within) {
              if (within) std::memset(to + at, 0, bytes);
            });
}

}  // namespace lockstep::kernels
