// The coordinator's own tokens, and what certificates permit: a call without
// them is refused before it reaches a job.
//
// Behind TLS every caller has a certificate of the coordinator's authority, and
// only an operator's certificate (server/rpc/caller.h) permits the calls of
// operators. Tokens are required besides, if there are any.
//
// There are two tokens. The operator's token permits every call. The worker's
// token permits the calls of a worker and its launcher: Session, FetchPlan and
// ReportEvidence. A coordinator with one token uses it for both.
//
// Jobs can have tokens too, which the coordinator's core checks. Behind a gate
// they have none: the gate passes no token to the core for an admitted call, so
// that the operator can access a job that a worker has created, and that a
// restart with another token knows the jobs of the journal as its own.
//
// Threads: immutable.

#ifndef LOCKSTEP_SERVER_RPC_TOKEN_GATE_H_
#define LOCKSTEP_SERVER_RPC_TOKEN_GATE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/rpc/caller.h"

namespace lockstep::rpc {

class TokenGate {
 public:
  // Without tokens every call is admitted.
  TokenGate() = default;
  // An empty worker token: workers use the operator's.
  explicit TokenGate(std::string operator_token, std::string worker_token = "")
      : operator_token_(std::move(operator_token)),
        worker_token_(std::move(worker_token)) {}

  // The tokens are the files' first lines; `worker_path` may be empty. Errors
  // of ReadSecretFile; InvalidArgument if both files have the same token.
  static absl::StatusOr<TokenGate> FromFiles(const std::string& operator_path,
                                             const std::string& worker_path);

  // The token that identifies the caller to the core, or PermissionDenied. The
  // time of a comparison depends only on the length of `token`.
  absl::StatusOr<std::string> AdmitOperator(const CallerIdentity& caller,
                                            absl::string_view token) const;
  absl::StatusOr<std::string> AdmitWorker(absl::string_view token) const;

 private:
  std::string operator_token_;
  std::string worker_token_;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_TOKEN_GATE_H_
