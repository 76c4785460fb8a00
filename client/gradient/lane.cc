#include "client/gradient/lane.h"

#include <utility>

namespace lockstep::gradient {

Lane::Lane(std::vector<int> pending, std::function<void(int)> launch,
           std::function<bool(int)> may_launch)
    : launch_(std::move(launch)),
      may_launch_(std::move(may_launch)),
      pending_at_start_(std::move(pending)),
      pending_(pending_at_start_) {}

absl::Status Lane::Ready(int item) {
  MutexLock lock(&mutex_);
  if (pending_[item] == 0) {
    return absl::FailedPreconditionError(
        "a gradient came before the verdict of the step before it");
  }
  pending_[item] -= 1;
  LaunchWhatIsReady();
  return absl::OkStatus();
}

absl::Status Lane::Close() {
  MutexLock lock(&mutex_);
  if (closed_) {
    return absl::FailedPreconditionError(
        "Finish before the verdict of the step before it");
  }
  closed_ = true;
  LaunchWhatIsReady();
  return absl::OkStatus();
}

void Lane::Look() {
  MutexLock lock(&mutex_);
  LaunchWhatIsReady();
}

int Lane::launched() {
  MutexLock lock(&mutex_);
  return static_cast<int>(next_);
}

void Lane::Begin(std::vector<int> pending) {
  MutexLock lock(&mutex_);
  pending_at_start_ = std::move(pending);
  pending_ = pending_at_start_;
}

void Lane::Restart() {
  MutexLock lock(&mutex_);
  pending_ = pending_at_start_;
  next_ = 0;
  closed_ = false;
}

bool Lane::MayLaunch(size_t item) const {
  return pending_[item] == 0 &&
         (!may_launch_ || may_launch_(static_cast<int>(item)));
}

void Lane::LaunchWhatIsReady() {
  while (next_ < pending_.size() && MayLaunch(next_)) {
    launch_(static_cast<int>(next_++));
  }
  if (next_ < pending_.size() || !closed_) return;
  launch_(static_cast<int>(next_));
  pending_ = pending_at_start_;
  next_ = 0;
  closed_ = false;
}

}  // namespace lockstep::gradient
