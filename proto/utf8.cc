#include "proto/utf8.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace lockstep::proto {
namespace {

bool IsAscii(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

// How many bytes the well-formed character at the front takes; 0 if there is
// none.
size_t CharacterLength(absl::string_view text) {
  const auto byte = [&](size_t i) -> uint32_t {
    return i < text.size() ? static_cast<uint8_t>(text[i]) : 0;
  };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  uint32_t code = lead & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3F);
  }
  const uint32_t least = length == 4 ? 0x10000 : length == 3 ? 0x800 : 0x80;
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < least || code > 0x10FFFF || surrogate ? 0 : length;
}

}  // namespace

std::string ToUtf8(absl::string_view text) {
  if (IsAscii(text)) return std::string(text);
  std::string utf8;
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    if (length == 0) {
      utf8 += "\xEF\xBF\xBD";
      text.remove_prefix(1);
    } else {
      utf8.append(text.data(), length);
      text.remove_prefix(length);
    }
  }
  return utf8;
}

}  // namespace lockstep::proto
