// The coordinator's own tokens, and what certificates permit: a call without
// them is refused before it reaches a job.
//
// Behind TLS every caller has a certificate of the coordinator's authority, and
// only an operator's certificate (server/rpc/caller.h) permits the calls of
// operators. Tokens are required besides, if there are any.
//
//   token of         permits
//   an operator      every call
//   workers          the calls of a worker and its launcher (Session, FetchPlan
//                    and ReportEvidence), for every job
//   one job          the same for that job: JoinToken (base/join_token.h) of a
//                    workers' token
//
// There may be several tokens of operators and of workers, while new ones
// replace old ones. A coordinator without workers' tokens uses those of
// operators for both, and has none for one job.
//
// Jobs can have tokens too, which the coordinator's core checks. Behind a gate
// they have none: the gate passes no token to the core for an admitted call, so
// that the operator can access a job that a worker has created, and that a
// restart with another token knows the jobs of the journal as its own.
//
// Threads: immutable.
// Errors:  Unauthenticated: no token, or none of these. PermissionDenied: a
//          token or certificate that does not permit the call.

#ifndef LOCKSTEP_SERVER_RPC_TOKEN_GATE_H_
#define LOCKSTEP_SERVER_RPC_TOKEN_GATE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/access/token_files.h"
#include "server/rpc/caller.h"

namespace lockstep::rpc {

// The tokens that admit callers, and what each of them opens.
struct Admission {
  std::string token;       // that identifies the caller to the core
  std::string credential;  // for people: "operator token 1"; empty: none
};

class TokenGate {
 public:
  TokenGate() = default;
  explicit TokenGate(Tokens tokens) : tokens_(std::move(tokens)) {}

  // AdmitWorker returns the token that identifies the caller to the core. `job`
  // is the one that the call is about; it may be empty. The time of a
  // comparison depends on the number of tokens and the length of `token` only.
  absl::StatusOr<Admission> AdmitOperator(const CallerIdentity& caller,
                                          absl::string_view job,
                                          absl::string_view token) const;
  absl::StatusOr<std::string> AdmitWorker(absl::string_view job,
                                          absl::string_view token) const;

  const Tokens& tokens() const { return tokens_; }

 private:
  bool IsWorkers(absl::string_view job, absl::string_view token) const;

  Tokens tokens_;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_TOKEN_GATE_H_
