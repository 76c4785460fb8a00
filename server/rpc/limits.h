// The limits of connections, messages and memory in front of the coordinator's
// loop, and how often something was refused for one.
//
//   connections     of both listeners; the next one is closed at once
//   message_bytes   gRPC ends the call before it has read a larger message
//   unread_messages, unread_bytes
//                   that wait until one worker reads them: its stream ends
//
// Threads: any.

#ifndef LOCKSTEP_SERVER_RPC_LIMITS_H_
#define LOCKSTEP_SERVER_RPC_LIMITS_H_

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "protocol/limit_use.h"
#include "server/rpc/open_connections.h"

namespace lockstep::rpc {

struct RpcLimitValues {
  int64_t connections = 20'000;
  int64_t message_bytes = int64_t{4} << 20;
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

  void NoteMessage(int64_t bytes);
  // gRPC refused a message.
  void CountRefusedMessage();

  // Whether so many messages, of so many bytes, may wait until a worker reads
  // them.
  bool AdmitUnread(int64_t messages, int64_t bytes);

  std::vector<LimitUse> Uses();

 private:
  const RpcLimitValues values_;
  Mutex mutex_;
  OpenConnections open_ ABSL_GUARDED_BY(mutex_);
  absl::Time counted_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  LimitUse connections_ ABSL_GUARDED_BY(mutex_);
  LimitUse message_ ABSL_GUARDED_BY(mutex_);
  LimitUse unread_messages_ ABSL_GUARDED_BY(mutex_);
  LimitUse unread_bytes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_LIMITS_H_
