// A job's token, kept as a hash so that the journal does not store the secret.

#ifndef LOCKSTEP_SERVER_CORE_TOKEN_H_
#define LOCKSTEP_SERVER_CORE_TOKEN_H_

#include <string>

#include "absl/strings/string_view.h"

namespace lockstep::core {

// SHA-256 (FIPS 180-4) of `text`, as 64 hexadecimal digits.
std::string Sha256(absl::string_view text);

// The hash that the journal stores of a token; empty for the empty token.
std::string HashOfToken(absl::string_view token);

// Whether `hash` is the hash of `token`, in constant time. Any token opens a
// job without one (empty `hash`).
bool TokenOpens(absl::string_view token, absl::string_view hash);

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_TOKEN_H_
