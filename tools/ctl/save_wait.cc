#include "tools/ctl/save_wait.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tools/ctl/choose_job.h"

namespace lockstep::ctl {
namespace {

// A failure that `before` did not have yet.
bool HasFailed(const CheckpointView& before, const CheckpointView& now) {
  if (now.failure.empty()) return false;
  return before.failure.empty() || now.failed_ago < before.failed_ago ||
         now.failed_step != before.failed_step;
}

}  // namespace

SaveWait::SaveWait(const JobView& before)
    : epoch_(before.epoch),
      earlier_saves_(before.checkpoint.saving),
      last_(before.checkpoint) {}

std::optional<absl::Status> SaveWait::Take(const JobView& view) {
  const CheckpointView& now = view.checkpoint;
  // Another coordinator may know an older one at first.
  const bool committed = now.committed > last_.committed;
  const bool failed = HasFailed(last_, now);
  const auto newest = std::max(now.committed, last_.committed);
  last_ = now;
  last_.committed = newest;
  if ((committed || failed) && !earlier_saves_) {
    if (committed) return absl::OkStatus();
    return absl::AbortedError(now.failure);
  }
  if (committed || failed) earlier_saves_ = false;
  const bool lives = view.state != JobState::kEpochEnded && !IsOver(view.state);
  if (lives && view.epoch == epoch_) return std::nullopt;
  return absl::AbortedError(absl::StrCat(
      "job ", view.name.value, ": its workers left before they had saved"));
}

}  // namespace lockstep::ctl
