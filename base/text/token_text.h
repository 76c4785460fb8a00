// Checks tokens where they are read. A token may be any UTF-8 text: gRPC does
// not send a message with other strings.

#ifndef LOCKSTEP_BASE_TEXT_TOKEN_TEXT_H_
#define LOCKSTEP_BASE_TEXT_TOKEN_TEXT_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/text/utf8.h"

namespace lockstep {

// InvalidArgument names the `source` (a file, an option or a variable), and not
// the token.
inline absl::Status CheckToken(absl::string_view token,
                               absl::string_view source) {
  if (ToUtf8(token) == token) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(source, ": the token holds bytes that are not UTF-8"));
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_TEXT_TOKEN_TEXT_H_
