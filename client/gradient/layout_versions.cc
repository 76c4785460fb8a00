#include "client/gradient/layout_versions.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace lockstep::gradient {

LayoutVersions::LayoutVersions(std::unique_ptr<Layout> first,
                               std::function<void()> on_moved)
    : in_effect_(std::move(first)),
      on_moved_(std::move(on_moved)),
      current_(in_effect_.get()),
      revision_(in_effect_->revision().value) {}

// --- The program's side -----------------------------------------------------

absl::Span<std::byte> LayoutVersions::View(int parameter) {
  std::unique_ptr<Layout> dropped;  // freed without the lock
  MutexLock lock(&mutex_);
  if (!views_are_out_ && on_moved_ == nullptr) {
    while (prepared_) committed_.Wait(&mutex_);
    dropped = std::move(next_);
  }
  views_are_out_ = true;
  return in_effect_->store().View(parameter);
}

void LayoutVersions::OnMoved(std::function<void()> handler) {
  std::unique_ptr<Layout> dropped;  // freed without the lock
  MutexLock lock(&mutex_);
  if (handler == nullptr) {
    while (prepared_) committed_.Wait(&mutex_);
    dropped = std::move(next_);
  }
  on_moved_ = std::move(handler);
}

// --- Preparing --------------------------------------------------------------

bool LayoutVersions::CanMove() const {
  MutexLock lock(&mutex_);
  return MayMove();
}

absl::Status LayoutVersions::Stage(std::unique_ptr<Layout> next) {
  MutexLock lock(&mutex_);
  const uint64_t now = in_effect_->revision().value;
  if (next->revision().value != now + 1 || prepared_) {
    return absl::FailedPreconditionError(
        absl::StrFormat("revision %d of the plan cannot follow revision %d",
                        next->revision().value, now));
  }
  if (!MayMove()) {
    return absl::FailedPreconditionError(
        "the program has views of its gradients and no handler for their move "
        "(GradientSync::OnMoved)");
  }
  if (!next->IsRevisionOf(*in_effect_)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "revision %d of the plan has other parameters or communicators than "
        "revision %d",
        next->revision().value, now));
  }
  next_ = std::move(next);
  return absl::OkStatus();
}

bool LayoutVersions::HasStaged() const {
  MutexLock lock(&mutex_);
  return next_ != nullptr;
}

// --- The switch -------------------------------------------------------------

bool LayoutVersions::Prepare() {
  MutexLock lock(&mutex_);
  prepared_ = next_ != nullptr;
  return prepared_;
}

// While prepared, neither layout changes, so the copy needs no lock. It may
// take long, and heartbeats call HasStaged meanwhile.
absl::StatusOr<bool> LayoutVersions::CopyIfPrepared() {
  const Layout* from = nullptr;
  Layout* to = nullptr;
  {
    MutexLock lock(&mutex_);
    if (!prepared_) return false;
    from = in_effect_.get();
    to = next_.get();
  }
  if (absl::Status copied = to->CopyGradients(*from); !copied.ok()) {
    return copied;
  }
  return true;
}

absl::StatusOr<bool> LayoutVersions::Commit(bool everyone) {
  const absl::StatusOr<bool> copied =
      everyone ? CopyIfPrepared() : absl::StatusOr<bool>(false);
  const bool moves = copied.ok() && *copied;
  std::unique_ptr<Layout> former;  // valid until the handler has returned
  std::function<void()> moved;
  {
    MutexLock lock(&mutex_);
    prepared_ = false;
    if (moves) {
      former = std::exchange(in_effect_, std::move(next_));
      current_.store(in_effect_.get(), std::memory_order_release);
      revision_.store(in_effect_->revision().value, std::memory_order_relaxed);
      moved = on_moved_;
    }
    committed_.NotifyAll();
  }
  if (moved) moved();
  if (!copied.ok()) return copied.status();
  return former != nullptr;
}

}  // namespace lockstep::gradient
