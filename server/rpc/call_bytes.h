// Counts what one call was given of its connection (open_connections.h), and
// limits its messages.
//
// Threads: one at a time.

#ifndef LOCKSTEP_SERVER_RPC_CALL_BYTES_H_
#define LOCKSTEP_SERVER_RPC_CALL_BYTES_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "server/rpc/limits.h"

namespace lockstep::rpc {

class CallBytes {
 public:
  // Counts the headers of the call.
  CallBytes(RpcLimits* limits, const grpc::ServerContextBase& call);

  // The call was given a message of so many bytes. ResourceExhausted: it is too
  // large, and must be refused.
  absl::Status AddMessage(int64_t bytes);

 private:
  void Add(int64_t bytes);

  RpcLimits* const limits_;
  std::shared_ptr<GivenBytes> given_;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_CALL_BYTES_H_
