// Statuses of ours as gRPC's: the codes are the same numbers.

#ifndef LOCKSTEP_SERVER_RPC_STATUS_H_
#define LOCKSTEP_SERVER_RPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "plan/words/utf8.h"

namespace lockstep::rpc {

// A status travels in a header, which peers bound at 8 KiB with all its parts,
// escaped: long messages are cut. Who must get it whole gets it in a message.
inline constexpr size_t kStatusMessageBytesMax = 2000;

inline grpc::Status ToGrpc(const absl::Status& status) {
  std::string message = Printable(status.message());
  if (message.size() > kStatusMessageBytesMax) {
    message.resize(kStatusMessageBytesMax);
    message += "...";
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message);
}

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_STATUS_H_
