// Identifies the caller of an RPC by the certificate of its connection.
//
// Threads: any.

#ifndef LOCKSTEP_SERVER_RPC_CALLER_H_
#define LOCKSTEP_SERVER_RPC_CALLER_H_

#include <string>

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

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_CALLER_H_
