#include "kernels/box_plane.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "kernels/copy.h"

namespace lockstep::kernels {
namespace {

// Calls f(std::integral_constant<int64_t, bytes>) for the size of an element.
template <class F>
void WithElementSize(int64_t bytes, F f) {
  switch (bytes) {
    case 1: return f(std::integral_constant<int64_t, 1>());
    case 2: return f(std::integral_constant<int64_t, 2>());
    case 4: return f(std::integral_constant<int64_t, 4>());
    case 8: return f(std::integral_constant<int64_t, 8>());
    case 16: return f(std::integral_constant<int64_t, 16>());
    default: Fatal("an element has 1, 2, 4, 8 or 16 bytes");
  }
}

template <int64_t kBytes>
void CopyElements(const BoxPlane& p, const std::byte* in, std::byte* out) {
  for (int64_t row = 0; row < p.rows; ++row) {
    const std::byte* from = in + row * p.in_row;
    std::byte* to = out + row * p.out_row;
    for (int64_t column = 0; column < p.columns; ++column) {
      std::memcpy(to, from, kBytes);
      from += p.in_column;
      to += p.out_column;
    }
  }
}

// Runs of kWord to 2 * kWord bytes.
template <int64_t kWord>
void CopyShortRuns(const BoxPlane& p, const std::byte* in, std::byte* out) {
  struct Word {
    std::byte bytes[kWord];
  };
  const int64_t second = p.row_bytes() - kWord;
  for (int64_t row = 0; row < p.rows; ++row, in += p.in_row, out += p.out_row) {
    Word words[2];
    std::memcpy(&words[0], in, kWord);
    std::memcpy(&words[1], in + second, kWord);
    std::memcpy(out, &words[0], kWord);
    std::memcpy(out + second, &words[1], kWord);
  }
}

void CopyLongRuns(const BoxPlane& p, const std::byte* in, std::byte* out) {
  const auto bytes = static_cast<size_t>(p.row_bytes());
  for (int64_t row = 0; row < p.rows; ++row) {
    Copy(out + row * p.out_row, in + row * p.in_row, bytes);
  }
}

void CopyRuns(const BoxPlane& p, const std::byte* in, std::byte* out) {
  const int64_t bytes = p.row_bytes();
  if (bytes <= 16 && (bytes & (bytes - 1)) == 0) {
    return WithElementSize(bytes, [&](auto size) {
      CopyElements<size()>({.element = bytes,
                            .columns = p.rows,
                            .in_column = p.in_row,
                            .out_column = p.out_row},
                           in, out);
    });
  }
  if (bytes < 4) return CopyShortRuns<2>(p, in, out);
  if (bytes < 8) return CopyShortRuns<4>(p, in, out);
  if (bytes < 16) return CopyShortRuns<8>(p, in, out);
  if (bytes <= 32) return CopyShortRuns<16>(p, in, out);
  if (bytes <= 64) return CopyShortRuns<32>(p, in, out);
  CopyLongRuns(p, in, out);
}

template <int64_t kBytes>
void FillElements(const BoxPlane& p, const std::byte* value, std::byte* out) {
  std::byte element[kBytes];
  std::memcpy(element, value, kBytes);
  for (int64_t row = 0; row < p.rows; ++row) {
    std::byte* to = out + row * p.out_row;
    for (int64_t column = 0; column < p.columns; ++column) {
      std::memcpy(to, element, kBytes);
      to += p.out_column;
    }
  }
}

// A line of the cache at a time.
void FillRuns(const BoxPlane& p, const std::byte* value, std::byte* out) {
  constexpr int64_t kLine = 64;
  std::byte line[kLine];
  for (int64_t at = 0; at < kLine; at += p.element) {
    std::memcpy(line + at, value, static_cast<size_t>(p.element));
  }
  const int64_t bytes = p.row_bytes();
  for (int64_t row = 0; row < p.rows; ++row, out += p.out_row) {
    int64_t at = 0;
    for (; at + kLine <= bytes; at += kLine) {
      std::memcpy(out + at, line, kLine);
    }
    std::memcpy(out + at, line, static_cast<size_t>(bytes - at));
  }
}

bool IsOneByteRepeated(const std::byte* value, int64_t bytes) {
  return std::all_of(value, value + bytes,
                     [&](std::byte byte) { return byte == *value; });
}

void SetRuns(const BoxPlane& p, std::byte value, std::byte* out) {
  for (int64_t row = 0; row < p.rows; ++row) {
    std::memset(out + row * p.out_row, static_cast<int>(value),
                static_cast<size_t>(p.row_bytes()));
  }
}

}  // namespace

void CopyPlane(const BoxPlane& p, const std::byte* in, std::byte* out) {
  if (p.has_in_runs() && p.has_out_runs()) return CopyRuns(p, in, out);
  WithElementSize(p.element,
                  [&](auto size) { CopyElements<size()>(p, in, out); });
}

void FillPlane(const BoxPlane& p, const std::byte* value, std::byte* out) {
  constexpr int64_t kLongRun = 64;
  if (!p.has_out_runs() || p.row_bytes() < kLongRun) {
    return WithElementSize(
        p.element, [&](auto size) { FillElements<size()>(p, value, out); });
  }
  if (IsOneByteRepeated(value, p.element)) return SetRuns(p, *value, out);
  FillRuns(p, value, out);
}

}  // namespace lockstep::kernels
