#include "plan/words/utf8.h"

#include <cstddef>
#include <cstdint>

namespace lockstep {
namespace {

// The bytes that a character with this first byte takes; 0 if none starts so.
size_t LengthFrom(uint8_t first) {
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;  // a continuation, or an overlong form
  if (first < 0xE0) return 2;
  if (first < 0xF0) return 3;
  return first < 0xF5 ? 4 : 0;
}

// Takes one character; false if there is no well-formed one.
bool TakeCharacter(absl::string_view* text, uint32_t* code) {
  const uint8_t first = static_cast<uint8_t>((*text)[0]);
  const size_t length = LengthFrom(first);
  if (length == 0 || text->size() < length) return false;
  *code = length == 1 ? first : first & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    const uint8_t next = static_cast<uint8_t>((*text)[i]);
    if ((next & 0xC0) != 0x80) return false;
    *code = *code << 6 | (next & 0x3F);
  }
  text->remove_prefix(length);
  const bool overlong =
      (length == 3 && *code < 0x800) || (length == 4 && *code < 0x10000);
  const bool surrogate = *code >= 0xD800 && *code <= 0xDFFF;
  return !overlong && !surrogate && *code <= 0x10FFFF;
}

bool IsControl(uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code <= 0x9F);
}

}  // namespace

bool IsPrintableUtf8(absl::string_view text) {
  uint32_t code = 0;
  while (!text.empty()) {
    if (!TakeCharacter(&text, &code) || IsControl(code)) return false;
  }
  return true;
}

}  // namespace lockstep
