// Identifies the caller of an RPC by the certificate of its connection.
//
// Threads: any.

#ifndef LOCKSTEP_SERVER_RPC_CALLER_H_
#define LOCKSTEP_SERVER_RPC_CALLER_H_

#include <string>

#include "absl/strings/string_view.h"

namespace grpc {
class AuthContext;
}  // namespace grpc

namespace lockstep::rpc {

struct CallerIdentity {
  bool has_certificate = false;  // false: the server speaks plaintext
  std::string name;              // the certificate's common name
  bool is_operator = false;      // its certificate is an operator's
};

// `context` may be null.
CallerIdentity CallerOf(const grpc::AuthContext* context);

// Names the caller for people: "alice with operator token 1 at 10.0.0.7:40123".
// `credential` (Admission) may be empty; `peer` is gRPC's
// "ipv4:10.0.0.7:40123".
std::string NameOf(const CallerIdentity& caller, absl::string_view credential,
                   absl::string_view peer);

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_CALLER_H_
