// Validates and escapes text from other processes for terminals and logs.
//
// Such a string can have escape sequences that rewrite a terminal, line breaks
// that forge log lines, and marks that reverse the displayed order. Every
// string that enters Lockstep is checked by one of two functions: a name must
// be printable (IsPrintableUtf8), any other text is escaped (Printable).
//
// Not printable are: bytes that are not well-formed UTF-8 (RFC 3629: no
// overlong forms, no surrogates, at most U+10FFFF), control characters (U+0000
// to U+001F, U+007F to U+009F), line and paragraph separators (U+2028, U+2029),
// and the bidirectional marks of Unicode (U+061C, U+200E, U+200F, U+202A to
// U+202E, U+2066 to U+2069).
//
// Threads: pure functions.

#ifndef LOCKSTEP_BASE_TEXT_UTF8_H_
#define LOCKSTEP_BASE_TEXT_UTF8_H_

#include <string>

#include "absl/strings/string_view.h"

namespace lockstep {

bool IsPrintableUtf8(absl::string_view text);

// `text` with everything that is not printable replaced by an escape: "\n",
// "\r", "\t", "\x1b" for ASCII and for bytes that are not UTF-8, "\u202e" for
// the rest. A backslash is kept, so Printable(Printable(t)) equals
// Printable(t).
std::string Printable(absl::string_view text);

// `text` with each byte that is not part of well-formed UTF-8 replaced by
// U+FFFD: receivers drop a message with strings that are not UTF-8.
std::string ToUtf8(absl::string_view text);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_TEXT_UTF8_H_
