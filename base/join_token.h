// The token that admits workers to one job and to no other.
//
//   HMAC-SHA256(secret, "lockstep join v1" JOB)    as 64 hexadecimal digits
//
// The secret is a line of the coordinator's file of worker tokens, so nothing
// is stored for a job: whoever has the file computes the tokens of all jobs,
// and the coordinator computes them again to compare. A token does not reveal
// the secret, if that cannot be guessed; see kJoinSecretBytesMin.
//
// Threads: any.

#ifndef LOCKSTEP_BASE_JOIN_TOKEN_H_
#define LOCKSTEP_BASE_JOIN_TOKEN_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lockstep {

// A holder of a join token can try secrets on a machine of their own until one
// gives that token. Of a random secret this long, in hexadecimal digits, no
// search finds it.
inline constexpr size_t kJoinSecretBytesMin = 32;

// InvalidArgument for a shorter secret. The message does not contain it.
absl::StatusOr<std::string> JoinToken(absl::string_view secret,
                                      absl::string_view job);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_JOIN_TOKEN_H_
