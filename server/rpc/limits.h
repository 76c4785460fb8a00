// The limits of connections, messages and memory in front of the coordinator's
// loop, and how often something was refused for one.
//
//   connections     of both listeners; the next one is closed at once
//   message_bytes   the call ends once a larger message was received
//   connection_bytes, incoming_bytes
//                   that one connection, or all, have sent and no call was
//                   given yet: the connection ends, or the one with the most.
//                   Messages that gRPC refuses are given to no call, and their
//                   sizes are not known: they count until the connection ends
//   unread_messages, unread_bytes
//                   that wait until one worker reads them: its stream ends
//
// Threads: any.

#ifndef LOCKSTEP_SERVER_RPC_LIMITS_H_
#define LOCKSTEP_SERVER_RPC_LIMITS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "protocol/limit_use.h"
#include "server/rpc/open_connections.h"

namespace lockstep::rpc {

struct RpcLimitValues {
  int64_t connections = 20'000;
  int64_t message_bytes = int64_t{4} << 20;
  int64_t connection_bytes = int64_t{64} << 20;
  int64_t incoming_bytes = int64_t{1} << 30;
  int64_t unread_messages = 1024;
  int64_t unread_bytes = int64_t{256} << 20;
};

class RpcLimits {
 public:
  // Closed connections are looked for at most so often.
  static constexpr absl::Duration kCountInterval = absl::Milliseconds(100);

  explicit RpcLimits(const RpcLimitValues& values);

  const RpcLimitValues& values() const { return values_; }

  // Whether the accepted connection may be kept, which is then counted until it
  // is closed.
  bool AdmitConnection(int descriptor, absl::Time now);
  // A connection was refused for want of descriptors.
  void CountRefusedConnection();

  // Whether any connection may be open.
  bool HasConnections();
  // Ends connections that have sent too much that no call was given. Call it
  // every kCheckInterval while there are connections; with many it looks less
  // often. Returns lines for the log.
  static constexpr absl::Duration kCheckInterval = absl::Milliseconds(50);
  std::vector<std::string> EndOverfullConnections(absl::Time now);

  // For what a call is given (call_bytes.h): of the connection with this peer.
  std::shared_ptr<GivenBytes> GivenBytesOf(absl::string_view peer);
  // Whether a call may take a message of so many bytes.
  bool AdmitMessage(int64_t bytes);

  // The limit of gRPC, which reports to nobody how large the messages are that
  // it refuses. So it is more than message_bytes: twice as much, or gRPC's
  // default, if that is more.
  int GrpcMessageBytes() const;

  // Whether so many messages, of so many bytes, may wait until a worker reads
  // them.
  bool AdmitUnread(int64_t messages, int64_t bytes);

  std::vector<LimitUse> Uses();

 private:
  const RpcLimitValues values_;
  Mutex mutex_;
  OpenConnections open_ ABSL_GUARDED_BY(mutex_);
  absl::Time counted_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time checked_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  LimitUse connections_ ABSL_GUARDED_BY(mutex_);
  LimitUse message_ ABSL_GUARDED_BY(mutex_);
  LimitUse connection_bytes_ ABSL_GUARDED_BY(mutex_);
  LimitUse incoming_bytes_ ABSL_GUARDED_BY(mutex_);
  LimitUse unread_messages_ ABSL_GUARDED_BY(mutex_);
  LimitUse unread_bytes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_LIMITS_H_
