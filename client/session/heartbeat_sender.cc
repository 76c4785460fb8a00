#include "client/session/heartbeat_sender.h"

#include <algorithm>

namespace lockstep::session {

void HeartbeatSender::Connected(absl::Duration silence_max) {
  connected_ = true;
  silence_max_ = std::max(silence_max, interval_);
  progress_.sent.reset();
  busy_.sent.reset();
}

std::optional<protocol::ToCoordinatorBody> HeartbeatSender::TakeDue(
    absl::Time now) {
  if (NextDue() > now) return std::nullopt;
  const bool progress = in_epoch_ && progress_.Unsent();
  if (!HasNews() || last_news_ + interval_ > now) return protocol::Heartbeat{};
  last_news_ = now;
  busy_was_last_ = busy_.Unsent() && !(progress && busy_was_last_);
  if (busy_was_last_) return busy_.TakeNewest();
  return progress_.TakeNewest();
}

std::optional<protocol::ToCoordinatorBody> HeartbeatSender::TakeProgress() {
  if (!connected_ || !in_epoch_ || !progress_.Unsent()) return std::nullopt;
  return progress_.TakeNewest();
}

std::optional<protocol::ToCoordinatorBody> HeartbeatSender::TakeLast() {
  if (!progress_.newest) return std::nullopt;
  if (progress_.newest->unsubmitted_by_all.count == 0 &&
      progress_.newest->unsubmitted_here.count == 0) {
    return std::nullopt;
  }
  return TakeProgress();
}

absl::Time HeartbeatSender::NextDue() const {
  if (!connected_) return absl::InfiniteFuture();
  const absl::Time heartbeat = last_sent_ + silence_max_;
  return HasNews() ? std::min(heartbeat, last_news_ + interval_) : heartbeat;
}

}  // namespace lockstep::session
