#include "server/rpc/limits.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace lockstep::rpc {
namespace {

// Looking at a connection takes about two microseconds: at most a 25th of a
// core.
constexpr absl::Duration kCheckIntervalOfEach = absl::Microseconds(50);
// For what calls are not given: pings, acknowledgements, calls of gRPC's own
// services.
constexpr int64_t kAllowancePerSecond = 4096;
constexpr absl::Duration kAllowanceMax = absl::Minutes(1);
constexpr int64_t kGrpcMessageBytes = int64_t{4} << 20;

std::string Ended(const OpenConnections::Waiting& connection,
                  const char* flag) {
  return absl::StrCat("the connection of ", connection.peer,
                      " was closed: it has sent ", connection.bytes,
                      " bytes of messages that are not whole, or were refused "
                      "as far too large (lockstepd ",
                      flag, ")");
}

}  // namespace

RpcLimits::RpcLimits(const RpcLimitValues& values)
    : values_(values),
      connections_{.name = "connections", .value = values.connections},
      message_{.name = "message_bytes", .value = values.message_bytes},
      connection_bytes_{.name = "connection_bytes",
                        .value = values.connection_bytes},
      incoming_bytes_{.name = "incoming_bytes", .value = values.incoming_bytes},
      unread_messages_{.name = "unread_messages",
                       .value = values.unread_messages},
      unread_bytes_{.name = "unread_bytes", .value = values.unread_bytes} {}

bool RpcLimits::AdmitConnection(int descriptor, absl::Time now) {
  MutexLock lock(&mutex_);
  auto open = static_cast<int64_t>(open_.known());
  if (open >= connections_.value && now >= counted_at_ + kCountInterval) {
    open = static_cast<int64_t>(open_.Count());
    counted_at_ = now;
  }
  if (!connections_.Admits(open + 1)) return false;
  open_.Add(descriptor);
  return true;
}

void RpcLimits::CountRefusedConnection() {
  MutexLock lock(&mutex_);
  ++connections_.refused;
}

bool RpcLimits::HasConnections() {
  MutexLock lock(&mutex_);
  return open_.known() > 0;
}

std::vector<std::string> RpcLimits::EndOverfullConnections(absl::Time now) {
  MutexLock lock(&mutex_);
  if (checked_at_ == absl::InfinitePast()) checked_at_ = now - kCheckInterval;
  const absl::Duration since =
      std::clamp(now - checked_at_, absl::ZeroDuration(), kAllowanceMax);
  if (since < std::max(kCheckInterval, kCheckIntervalOfEach * open_.known())) {
    return {};
  }
  checked_at_ = now;
  const auto waiting = open_.WaitingBytes(absl::ToInt64Milliseconds(since) *
                                          kAllowancePerSecond / 1000);
  int64_t all = 0;
  for (const auto& connection : waiting) all += connection.bytes;
  std::vector<std::string> lines;
  bool too_much = !incoming_bytes_.Admits(all);
  for (const auto& connection : waiting) {
    const bool too_much_of_one = !connection_bytes_.Admits(connection.bytes);
    if (!too_much && !too_much_of_one) break;
    lines.push_back(Ended(connection, too_much_of_one
                                          ? "--connection_bytes_max"
                                          : "--incoming_bytes_max"));
    open_.End(connection);
    all -= connection.bytes;
    too_much = all > incoming_bytes_.value;
  }
  incoming_bytes_.used = all;
  return lines;
}

std::shared_ptr<GivenBytes> RpcLimits::GivenBytesOf(absl::string_view peer) {
  MutexLock lock(&mutex_);
  return open_.GivenBytesOf(peer);
}

bool RpcLimits::AdmitMessage(int64_t bytes) {
  MutexLock lock(&mutex_);
  return message_.Admits(bytes);
}

int RpcLimits::GrpcMessageBytes() const {
  return static_cast<int>(std::clamp<int64_t>(2 * values_.message_bytes,
                                              kGrpcMessageBytes,
                                              std::numeric_limits<int>::max()));
}

bool RpcLimits::AdmitUnread(int64_t messages, int64_t bytes) {
  MutexLock lock(&mutex_);
  return unread_messages_.Admits(messages) && unread_bytes_.Admits(bytes);
}

std::vector<LimitUse> RpcLimits::Uses() {
  MutexLock lock(&mutex_);
  connections_.used = static_cast<int64_t>(open_.Count());
  return {connections_,    message_,         connection_bytes_,
          incoming_bytes_, unread_messages_, unread_bytes_};
}

}  // namespace lockstep::rpc
