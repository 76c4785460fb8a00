// Text that may go into a string field.
//
// Receivers drop a message whose strings are not UTF-8, and with it the stream
// it came on: a name or an error text from outside must not do that.

#ifndef LOCKSTEP_PROTO_UTF8_H_
#define LOCKSTEP_PROTO_UTF8_H_

#include <string>

#include "absl/strings/string_view.h"

namespace lockstep::proto {

// The text, with each byte that is not part of well-formed UTF-8 (RFC 3629: no
// overlong forms, no surrogates, at most U+10FFFF) replaced by U+FFFD.
std::string ToUtf8(absl::string_view text);

}  // namespace lockstep::proto

#endif  // LOCKSTEP_PROTO_UTF8_H_
