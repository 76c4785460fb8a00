// The files of a coordinator's tokens: what lockstepd reads at its start, and
// lockstepctl doctor before.
//
// Threads: any.

#ifndef LOCKSTEP_SERVER_ACCESS_TOKEN_FILES_H_
#define LOCKSTEP_SERVER_ACCESS_TOKEN_FILES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::rpc {

struct TokenFiles {
  std::string operators;  // a path; empty: no file, and no tokens
  std::string workers;    // may be empty

  bool empty() const { return operators.empty(); }
};

// Each list has the newest token first.
struct Tokens {
  std::vector<std::string> operators;  // empty: every call is admitted
  std::vector<std::string> workers;

  bool operator==(const Tokens&) const = default;
};

// The lines of the files. Errors of ReadSecretLines; InvalidArgument if a token
// is in both files, or if there is only one of workers.
absl::StatusOr<Tokens> ReadTokens(const TokenFiles& files);

// What is wrong with tokens that are so short that they can be guessed, or
// those of workers that JoinToken refuses, for people; empty: nothing is. They
// are accepted all the same.
std::string WarningOfShortTokens(const Tokens& tokens);

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_ACCESS_TOKEN_FILES_H_
