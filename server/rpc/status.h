// Converts absl statuses to gRPC's: the codes are the same numbers.

#ifndef LOCKSTEP_SERVER_RPC_STATUS_H_
#define LOCKSTEP_SERVER_RPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "base/text/utf8.h"

namespace lockstep::rpc {

// gRPC sends a status in a header, which peers limit to 8 KiB in total, after
// escaping, so long messages are truncated. A status that must arrive whole is
// sent in a message.
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
