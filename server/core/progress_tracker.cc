#include "server/core/progress_tracker.h"

#include <algorithm>
#include <utility>

namespace lockstep::core {

ProgressTracker::ProgressTracker(int world_size, absl::Duration patience,
                                 absl::Time now, uint64_t first_step)
    : patience_(patience),
      standings_(world_size),
      present_(world_size),
      highest_step_(first_step) {
  for (int rank = 0; rank < world_size; ++rank) {
    standings_[rank].position.step = first_step;
    standings_[rank].moved = now;
    standings_[rank].told = now;
    due_.Set(rank, now + patience_);
  }
  positions_[{.step = first_step}] = world_size;
}

bool ProgressTracker::Update(int rank, const protocol::Progress& progress,
                             absl::Time now) {
  RankProgress& standing = standings_[rank];
  const bool moved =
      standing.position != progress.position ||
      standing.submitted != progress.submitted ||
      standing.task != progress.task || standing.awaits != progress.awaits ||
      standing.groups != progress.groups || standing.paused != progress.paused;
  if (standing.position != progress.position && standing.present) {
    Count(standing.position, -1);
    Count(progress.position, +1);
  }
  if (progress.position.step > highest_step_) {
    highest_step_ = progress.position.step;
    if (standing.reported) advanced_ = now;
  }
  standing.reported = true;
  if (standing.present) SetPaused(standing, progress.paused);
  standing.position = progress.position;
  standing.told = now;
  standing.submitted = progress.submitted;
  standing.missing = progress.missing;
  standing.task = progress.task;
  standing.awaits = progress.awaits;
  standing.withdrawn = progress.withdrawn;
  standing.groups = progress.groups;
  standing.revision = progress.revision;
  standing.memory = progress.memory;
  if (progress.step_seconds > 0) {
    standing.step_seconds = progress.step_seconds;
    standing.exposed_seconds = progress.exposed_seconds;
    standing.overlap = progress.overlap;
  }
  return moved && Moved(rank, now);
}

bool ProgressTracker::Touch(int rank, absl::Time now) {
  return Moved(rank, now);
}

void ProgressTracker::SetBusy(int rank, const protocol::Busy& busy,
                              absl::Time now) {
  RankProgress& standing = standings_[rank];
  standing.busy = busy.reason;
  standing.busy_until =
      busy.reason.empty() ? absl::InfinitePast() : now + busy.max;
  // A busy rank is not stuck; the end of Busy restarts its deadline.
  if (busy.reason.empty()) standing.moved = now;
  standing.called_stuck = false;
  if (standing.present) {
    due_.Set(rank, std::max(standing.moved + patience_, standing.busy_until));
  }
}

void ProgressTracker::Drop(int rank) {
  RankProgress& standing = standings_[rank];
  if (!standing.present) return;
  SetPaused(standing, false);
  standing.present = false;
  --present_;
  Count(standing.position, -1);
  due_.Clear(rank);
}

void ProgressTracker::Begin(absl::Time now) {
  for (RankProgress& standing : standings_) standing.told = now;
  BeginAnew(now);
}

void ProgressTracker::BeginAnew(absl::Time now) {
  for (int rank = 0; rank < size(); ++rank) {
    if (standings_[rank].present) Moved(rank, now);
  }
}

bool ProgressTracker::IsStuck(int rank, absl::Time now) const {
  const RankProgress& standing = standings_[rank];
  return standing.present && !standing.paused &&
         standing.moved + patience_ <= now && standing.busy_until <= now;
}

std::vector<int> ProgressTracker::TakeDue(absl::Time now) {
  std::vector<int> due = due_.TakeDue(now);
  for (const int rank : due) due_.Set(rank, now + patience_);
  return due;
}

protocol::Position ProgressTracker::Furthest() const {
  return positions_.empty() ? protocol::Position{} : positions_.rbegin()->first;
}

bool ProgressTracker::Moved(int rank, absl::Time now) {
  RankProgress& standing = standings_[rank];
  standing.moved = now;
  if (standing.present) {
    due_.Set(rank, std::max(now + patience_, standing.busy_until));
  }
  return std::exchange(standing.called_stuck, false);
}

void ProgressTracker::SetPaused(RankProgress& standing, bool paused) {
  paused_ += (paused ? 1 : 0) - (standing.paused ? 1 : 0);
  standing.paused = paused;
}

void ProgressTracker::Count(const protocol::Position& position, int sign) {
  const auto entry = positions_.try_emplace(position, 0).first;
  entry->second += sign;
  if (entry->second == 0) positions_.erase(entry);
}

}  // namespace lockstep::core
