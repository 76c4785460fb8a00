#include "client/gradient/layout_versions.h"

#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

namespace lockstep::gradient {

LayoutVersions::LayoutVersions(Layouts first, std::function<void()> on_moved)
    : in_effect_(std::move(first)),
      on_moved_(std::move(on_moved)),
      current_(in_effect_[0].get()),
      revision_(in_effect_[0]->revision().value) {}

bool LayoutVersions::Rotate() {
  MutexLock lock(&mutex_);
  if (in_effect_.size() == 1) return false;
  turn_ = (turn_ + 1) % in_effect_.size();
  current_.store(in_effect_[turn_].get(), std::memory_order_release);
  return true;
}

absl::Status LayoutVersions::ForEach(
    absl::FunctionRef<absl::Status(Layout&)> work) {
  std::vector<Layout*> layouts;
  {
    MutexLock lock(&mutex_);
    for (const auto& layout : in_effect_) layouts.push_back(layout.get());
  }
  for (Layout* const layout : layouts) {
    if (absl::Status done = work(*layout); !done.ok()) return done;
  }
  return absl::OkStatus();
}

// --- The program's side -----------------------------------------------------

absl::Span<std::byte> LayoutVersions::View(int parameter) {
  Layouts dropped;  // freed without the lock
  MutexLock lock(&mutex_);
  if (!views_are_out_ && on_moved_ == nullptr) {
    while (prepared_ > 0) released_.Wait(&mutex_);
    dropped = std::exchange(next_, {});
  }
  views_are_out_ = true;
  return in_effect_[turn_]->store().View(parameter);
}

void LayoutVersions::OnMoved(std::function<void()> handler) {
  Layouts dropped;  // freed without the lock
  MutexLock lock(&mutex_);
  if (handler == nullptr) {
    while (prepared_ > 0) released_.Wait(&mutex_);
    dropped = std::exchange(next_, {});
  }
  on_moved_ = std::move(handler);
}

void LayoutVersions::Freeze() {
  Layouts dropped;  // freed without the lock
  MutexLock lock(&mutex_);
  while (prepared_ > 0) released_.Wait(&mutex_);
  dropped = std::exchange(next_, {});
  frozen_ = true;
}

// --- Preparing --------------------------------------------------------------

bool LayoutVersions::CanMove() const {
  MutexLock lock(&mutex_);
  return MayMove();
}

absl::Status LayoutVersions::Stage(Layouts next) {
  MutexLock lock(&mutex_);
  const uint64_t now = in_effect_[0]->revision().value;
  if (next[0]->revision().value != now + 1 || prepared_ > 0) {
    return absl::FailedPreconditionError(
        absl::StrFormat("revision %d of the plan cannot follow revision %d",
                        next[0]->revision().value, now));
  }
  if (frozen_) {
    return absl::FailedPreconditionError(
        "the program launches graphs with this revision's buckets "
        "(ReplayedSteps)");
  }
  if (!MayMove()) {
    return absl::FailedPreconditionError(
        "the program has views of its gradients and no handler for their move "
        "(GradientSync::OnMoved)");
  }
  if (!next[0]->IsRevisionOf(*in_effect_[0])) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "revision %d of the plan has other parameters or communicators than "
        "revision %d",
        next[0]->revision().value, now));
  }
  next_ = std::move(next);
  return absl::OkStatus();
}

bool LayoutVersions::HasStaged() const {
  MutexLock lock(&mutex_);
  return !next_.empty();
}

// --- The switch -------------------------------------------------------------

bool LayoutVersions::Prepare() {
  MutexLock lock(&mutex_);
  if (next_.empty()) return false;
  prepared_ += 1;
  return true;
}

void LayoutVersions::Release() {
  MutexLock lock(&mutex_);
  prepared_ -= 1;
  if (prepared_ == 0) released_.NotifyAll();
}

void LayoutVersions::ReleaseAll() {
  MutexLock lock(&mutex_);
  prepared_ = 0;
  released_.NotifyAll();
}

// While prepared, no layout changes, so the copy needs no lock. It may take
// long, and heartbeats call HasStaged meanwhile.
absl::StatusOr<bool> LayoutVersions::CopyIfPrepared() {
  std::vector<std::pair<const Layout*, Layout*>> copies;
  {
    MutexLock lock(&mutex_);
    if (prepared_ == 0) return false;
    for (size_t i = 0; i < next_.size(); ++i) {
      copies.emplace_back(in_effect_[i].get(), next_[i].get());
    }
  }
  for (const auto& [from, to] : copies) {
    if (absl::Status copied = to->CopyGradients(*from); !copied.ok()) {
      return copied;
    }
  }
  return true;
}

absl::StatusOr<bool> LayoutVersions::Switch() {
  const absl::StatusOr<bool> moves = CopyIfPrepared();
  std::function<void()> moved;
  {
    MutexLock lock(&mutex_);
    prepared_ = 0;
    if (moves.ok() && *moves) {
      former_ = std::exchange(in_effect_, std::exchange(next_, {}));
      current_.store(in_effect_[turn_].get(), std::memory_order_release);
      revision_.store(in_effect_[0]->revision().value,
                      std::memory_order_relaxed);
      // With one for each step in flight, each step fetches its views.
      if (in_effect_.size() == 1) moved = on_moved_;
    }
    released_.NotifyAll();
  }
  if (moved) moved();
  return moves;
}

void LayoutVersions::ForgetFormer() { former_.clear(); }

}  // namespace lockstep::gradient
