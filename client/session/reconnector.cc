#include "client/session/reconnector.h"

#include <algorithm>

namespace lockstep::session {

std::optional<OpenStream> Reconnector::TakeDue(absl::Time now) {
  if (current_ != 0 || now < connect_at_) return std::nullopt;
  current_ = ++last_;
  welcomed_ = false;
  welcome_by_ = now + timeout_;
  return OpenStream{current_, address_};
}

void Reconnector::Welcomed() {
  welcomed_ = true;
  welcome_by_ = absl::InfiniteFuture();
  backoff_.Reset();
}

void Reconnector::Lost(absl::Time now, absl::Duration pause) {
  current_ = 0;
  welcome_by_ = absl::InfiniteFuture();
  if (!welcomed_) address_ = (address_ + 1) % addresses_;
  connect_at_ = now + std::max(backoff_.Next(), pause);
}

void Reconnector::Stop() {
  current_ = 0;
  welcome_by_ = absl::InfiniteFuture();
  connect_at_ = absl::InfiniteFuture();
}

bool Reconnector::TimedOut(absl::Time now) const {
  return current_ != 0 && welcome_by_ <= now;
}

absl::Time Reconnector::NextWake() const {
  return current_ == 0 ? connect_at_ : welcome_by_;
}

}  // namespace lockstep::session
