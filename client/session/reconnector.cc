#include "client/session/reconnector.h"

#include <algorithm>

namespace lockstep::session {
namespace {

constexpr absl::Duration kSameAgain = absl::Seconds(1);

}  // namespace

std::optional<OpenStream> Reconnector::TakeDue(absl::Time now) {
  if (current_ != 0 || now < connect_at_) return std::nullopt;
  current_ = ++last_;
  welcomed_ = false;
  const bool is_first_of_several = welcomed_before_ && addresses_ > 1;
  welcome_by_ =
      now + (is_first_of_several ? std::min(kSameAgain, timeout_) : timeout_);
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
  welcomed_before_ = welcomed_;
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
