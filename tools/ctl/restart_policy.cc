#include "tools/ctl/restart_policy.h"

#include <algorithm>

namespace lockstep::ctl {
namespace {

constexpr absl::Duration kPauseMin = absl::Milliseconds(100);
constexpr absl::Duration kPauseMax = absl::Seconds(30);
// Workers that ran this long are not in a loop of crashes.
constexpr absl::Duration kRunsLong = absl::Minutes(1);

}  // namespace

std::optional<Restart> RestartPolicy::OnFailure(const std::string& worker,
                                                absl::Time now) {
  const bool is_part = InIncident(now) && workers_.count(worker) == 0;
  if (!is_part) {
    if (used_ >= restarts_max_) return std::nullopt;
    BeginIncident(now);
  }
  return Join(worker, now);
}

std::optional<Restart> RestartPolicy::OnNeeded(const std::string& worker,
                                               absl::Time now) {
  if (!InIncident(now) || workers_.count(worker) > 0) return std::nullopt;
  return Join(worker, now);
}

bool RestartPolicy::InIncident(absl::Time now) const {
  return used_ > 0 && now - first_failure_ <= grace_;
}

void RestartPolicy::BeginIncident(absl::Time now) {
  const bool ran = now - start_at_ >= kRunsLong;
  pause_ =
      ran ? absl::ZeroDuration() : std::clamp(2 * pause_, kPauseMin, kPauseMax);
  used_ += 1;
  first_failure_ = now;
  start_at_ = now + pause_;
  workers_.clear();
}

Restart RestartPolicy::Join(const std::string& worker, absl::Time now) {
  workers_.insert(worker);
  return {.number = used_,
          .pause = std::max(start_at_ - now, absl::ZeroDuration())};
}

}  // namespace lockstep::ctl
