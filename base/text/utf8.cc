#include "base/text/utf8.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_format.h"

namespace lockstep {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  // 0: the text does not start with well-formed UTF-8
};

// The bytes of a character with first byte `first`; 0 for a continuation byte
// and for bytes that start no character.
size_t LengthFrom(uint8_t first) {
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;
  if (first < 0xE0) return 2;
  if (first < 0xF0) return 3;
  return first < 0xF5 ? 4 : 0;
}

// The first character of a text that is not empty.
Character FirstOf(absl::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  const size_t length = LengthFrom(first);
  if (length == 0 || text.size() < length) return {};
  uint32_t code = length == 1 ? first : first & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    const auto next = static_cast<uint8_t>(text[i]);
    if ((next & 0xC0) != 0x80) return {};
    code = code << 6 | (next & 0x3F);
  }
  const bool overlong =
      (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (overlong || surrogate || code > 0x10FFFF) return {};
  return {code, length};
}

bool IsPrintable(uint32_t code) {
  const bool control = code < 0x20 || (code >= 0x7F && code <= 0x9F);
  const bool separator = code == 0x2028 || code == 0x2029;
  const bool direction = code == 0x061C || code == 0x200E || code == 0x200F ||
                         (code >= 0x202A && code <= 0x202E) ||
                         (code >= 0x2066 && code <= 0x2069);
  return !control && !separator && !direction;
}

bool IsPlainAscii(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= 0x20 && c < 0x7F; });
}

void AppendEscaped(uint32_t code, std::string* out) {
  switch (code) {
    case '\n': *out += "\\n"; return;
    case '\r': *out += "\\r"; return;
    case '\t': *out += "\\t"; return;
    default: break;
  }
  if (code < 0x80) {
    absl::StrAppendFormat(out, "\\x%02x", code);
  } else {
    absl::StrAppendFormat(out, "\\u%04x", code);
  }
}

}  // namespace

bool IsPrintableUtf8(absl::string_view text) {
  while (!text.empty()) {
    const Character character = FirstOf(text);
    if (character.bytes == 0 || !IsPrintable(character.code)) return false;
    text.remove_prefix(character.bytes);
  }
  return true;
}

std::string Printable(absl::string_view text) {
  if (IsPlainAscii(text)) return std::string(text);
  std::string printable;
  while (!text.empty()) {
    const Character character = FirstOf(text);
    const size_t bytes = std::max<size_t>(character.bytes, 1);
    if (character.bytes == 0) {
      absl::StrAppendFormat(&printable, "\\x%02x",
                            static_cast<uint8_t>(text[0]));
    } else if (IsPrintable(character.code)) {
      printable.append(text.data(), bytes);
    } else {
      AppendEscaped(character.code, &printable);
    }
    text.remove_prefix(bytes);
  }
  return printable;
}

std::string ToUtf8(absl::string_view text) {
  if (IsPlainAscii(text)) return std::string(text);
  std::string utf8;
  while (!text.empty()) {
    const size_t bytes = FirstOf(text).bytes;
    if (bytes == 0) {
      utf8 += "\xEF\xBF\xBD";
      text.remove_prefix(1);
    } else {
      utf8.append(text.data(), bytes);
      text.remove_prefix(bytes);
    }
  }
  return utf8;
}

}  // namespace lockstep
