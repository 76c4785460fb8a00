// A job's token: kept as a hash, so that the journal does not hold the secret.

#ifndef LOCKSTEP_SERVER_CORE_TOKEN_H_
#define LOCKSTEP_SERVER_CORE_TOKEN_H_

#include <string>

#include "absl/strings/string_view.h"

namespace lockstep::core {

// SHA-256 (FIPS 180-4) of `text`, as 64 hexadecimal digits.
std::string Sha256(absl::string_view text);

// What the journal keeps of a token; empty for the empty token.
std::string HashOfToken(absl::string_view token);

// Whether a token is the one of that hash. Takes as long whether or not. Every
// token opens a job that has none.
bool TokenOpens(absl::string_view token, absl::string_view hash);

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_TOKEN_H_
