// The daemon's own token: who does not bear it is refused at the door.
//
// Jobs have tokens of their own besides, which the coordinator knows. With a
// token file the two are one: what comes in bears the daemon's token, and so
// every job is created with it.
//
// Threads: immutable.

#ifndef LOCKSTEP_SERVER_RPC_TOKEN_GATE_H_
#define LOCKSTEP_SERVER_RPC_TOKEN_GATE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_system.h"

namespace lockstep::rpc {

class TokenGate {
 public:
  // Everybody may pass.
  TokenGate() = default;
  explicit TokenGate(std::string token) : token_(std::move(token)) {}

  // The file's first line. InvalidArgument if that is empty; errors of the
  // file system.
  static absl::StatusOr<TokenGate> FromFile(FileSystem* files,
                                            const std::string& path);

  // PermissionDenied. Takes as long for every token of the same length.
  absl::Status Check(absl::string_view token) const;

 private:
  std::string token_;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_TOKEN_GATE_H_
