#include "client/session/pulse.h"

#include <algorithm>

namespace lockstep::session {

void Pulse::Connected(absl::Duration silence_max) {
  connected_ = true;
  silence_max_ = std::max(silence_max, interval_);
  progress_.told.reset();
  busy_.told.reset();
}

std::optional<protocol::ToCoordinatorBody> Pulse::TakeDue(absl::Time now) {
  if (NextDue() > now) return std::nullopt;
  const bool progress = in_epoch_ && progress_.Untold();
  if (busy_.Untold() && !(progress && busy_was_last_)) {
    busy_was_last_ = true;
    return busy_.Tell();
  }
  busy_was_last_ = false;
  if (progress) return progress_.Tell();
  return protocol::Heartbeat{};
}

absl::Time Pulse::NextDue() const {
  if (!connected_) return absl::InfiniteFuture();
  return last_sent_ + (HasNews() ? interval_ : silence_max_);
}

}  // namespace lockstep::session
