#include "server/rpc/limits.h"

namespace lockstep::rpc {

RpcLimits::RpcLimits(const RpcLimitValues& values)
    : values_(values),
      connections_{.name = "connections", .value = values.connections},
      message_{.name = "message_bytes", .value = values.message_bytes},
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

void RpcLimits::NoteMessage(int64_t bytes) {
  MutexLock lock(&mutex_);
  message_.Admits(bytes);
}

void RpcLimits::CountRefusedMessage() {
  MutexLock lock(&mutex_);
  ++message_.refused;
}

bool RpcLimits::AdmitUnread(int64_t messages, int64_t bytes) {
  MutexLock lock(&mutex_);
  return unread_messages_.Admits(messages) && unread_bytes_.Admits(bytes);
}

std::vector<LimitUse> RpcLimits::Uses() {
  MutexLock lock(&mutex_);
  connections_.used = static_cast<int64_t>(open_.Count());
  return {connections_, message_, unread_messages_, unread_bytes_};
}

}  // namespace lockstep::rpc
