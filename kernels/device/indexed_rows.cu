#include <algorithm>

#include "kernels/any_element.h"
#include "kernels/device/indexed_rows.h"
#include "kernels/device/lanes.cuh"
#include "kernels/device/words.cuh"

namespace lockstep::kernels::device {
namespace {

// The first thread that finds a fault writes it.
__device__ void Report(int32_t index, IndexFault* fault) {
  const unsigned long long found =
      1ull | static_cast<unsigned long long>(static_cast<uint32_t>(index))
                 << 32;
  atomicCAS(reinterpret_cast<unsigned long long*>(fault), 0ull, found);
}

__device__ __forceinline__ bool IsRow(int32_t index, size_t rows) {
  return index >= 0 && static_cast<size_t>(index) < rows;
}

template <class Word>
__global__ void __launch_bounds__(kThreads)
    GatherRowWords(const Word* in, size_t rows, const int32_t* indices,
                   size_t count, Word* out, size_t row_words,
                   unsigned lanes_log2, IndexFault* fault) {
  ForRanges(count, lanes_log2, [&](size_t r, unsigned lane) {
    const int32_t index = indices[r];
    const bool is_row = IsRow(index, rows);
    if (!is_row && lane == 0) Report(index, fault);
    Word* const to = out + r * row_words;
    const Word* const from = in + (is_row ? index : 0) * row_words;
    for (size_t i = lane; i < row_words; i += 1u << lanes_log2) {
      to[i] = is_row ? from[i] : Word{};
    }
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    AddRowElements(const T* in, const int32_t* indices, size_t count, T* out,
                   size_t rows, size_t row_elements, IndexFault* fault) {
  const size_t first = size_t{blockIdx.x} * kThreads + threadIdx.x;
  if (first == 0) {
    for (size_t r = 0; r < count; ++r) {
      if (!IsRow(indices[r], rows)) Report(indices[r], fault);
    }
  }
  const size_t stride = size_t{gridDim.x} * kThreads;
  for (size_t i = first; i < rows * row_elements; i += stride) {
    const size_t row = i / row_elements;
    const size_t element = i - row * row_elements;
    T sum = out[i];
    for (size_t r = 0; r < count; ++r) {
      if (indices[r] < 0 || static_cast<size_t>(indices[r]) != row) continue;
      sum =
          FromWide<T>(Sum(ToWide(sum), ToWide(in[r * row_elements + element])));
    }
    out[i] = sum;
  }
}

}  // namespace

Launched GatherRows(const void* in, size_t rows, const int32_t* indices,
                    size_t count, void* out, size_t row_bytes,
                    IndexFault* fault, Stream stream) {
  if (count == 0) return kLaunched;
  const uintptr_t parts = AddressOf(in) | AddressOf(out) | row_bytes;
  return WithWord(parts, [&](auto word) {
    using Word = decltype(word);
    const size_t row_words = row_bytes / sizeof(Word);
    const unsigned lanes_log2 = LanesLog2(row_words);
    return LaunchKernel(GatherRowWords<Word>,
                        BlocksForRanges(count, lanes_log2), kThreads, stream,
                        static_cast<const Word*>(in), rows, indices, count,
                        static_cast<Word*>(out), row_words, lanes_log2, fault);
  });
}

Launched AddRows(const void* in, const int32_t* indices, size_t count,
                 void* out, size_t rows, size_t row_elements, DType dtype,
                 IndexFault* fault, Stream stream) {
  Check(dtype != DType::kBool, "a bool has no sum");
  if (count == 0) return kLaunched;
  Launched launched = kLaunched;
  WithAnyType(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launched =
        LaunchKernel(AddRowElements<T>, BlocksFor(rows * row_elements),
                     kThreads, stream, static_cast<const T*>(in), indices,
                     count, static_cast<T*>(out), rows, row_elements, fault);
  });
  return launched;
}

}  // namespace lockstep::kernels::device
