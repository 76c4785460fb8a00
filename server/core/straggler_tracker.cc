#include "server/core/straggler_tracker.h"

#include <algorithm>

namespace lockstep::core {

void StragglerTracker::Update(int rank, const protocol::Progress& progress,
                              absl::Time now) {
  const auto [step, phase] = progress.position;
  RankLag& standing = standings_[rank];
  if (phase == protocol::Phase::kCompute) {
    standing.last = progress.missing.empty() ? "" : progress.missing.front();
  }
  const bool has_arrived = phase >= protocol::Phase::kTransfer;
  const bool for_the_first_time = standing.arrived != step;
  if (has_arrived && for_the_first_time) Arrive(rank, step, now);
}

void StragglerTracker::Arrive(int rank, uint64_t step, absl::Time now) {
  const bool is_first = !waiting_ || waiting_->step < step;
  if (is_first) {
    waiting_ = Waiting{step, now};
    named_ = false;
  }
  RankLag& standing = standings_[rank];
  standing.arrived = step;
  if (waiting_->step != step) return;  // an old report
  const double lag = absl::ToDoubleSeconds(now - waiting_->since);
  standing.seconds += kNewest * (lag - standing.seconds);
  if (lag > 0 && !standing.last.empty()) Attribute(rank, standing.last, lag);
}

void StragglerTracker::Attribute(int rank, const std::string& parameter,
                                 double seconds) {
  waited_[{rank, parameter}] += seconds;
  if (waited_.size() <= kKept) return;
  waited_.erase(std::min_element(
      waited_.begin(), waited_.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; }));
}

void StragglerTracker::BeginAnew(absl::Time now) {
  if (waiting_) waiting_->since = now;
  named_ = false;
}

bool StragglerTracker::HasArrived(int rank) const {
  const auto found = standings_.find(rank);
  return waiting_ && found != standings_.end() &&
         found->second.arrived >= waiting_->step;
}

absl::Time StragglerTracker::NextDue() const {
  if (!waiting_ || named_) return absl::InfiniteFuture();
  return waiting_->since + kReportAfter;
}

bool StragglerTracker::TakeDue(absl::Time now) {
  if (NextDue() > now) return false;
  named_ = true;
  return true;
}

bool StragglerTracker::Name(int rank, absl::Time now) {
  absl::Time& named = standings_[rank].named;
  if (now - named < kNamedAgain) return false;
  named = now;
  return true;
}

double StragglerTracker::Seconds(int rank) const {
  const auto found = standings_.find(rank);
  return found == standings_.end() ? 0 : found->second.seconds;
}

std::vector<StragglerTracker::Lag> StragglerTracker::Longest(size_t max) const {
  std::vector<Lag> lags;
  for (const auto& [who, seconds] : waited_) {
    lags.push_back({who.first, who.second, seconds});
  }
  std::stable_sort(lags.begin(), lags.end(), [](const Lag& a, const Lag& b) {
    return a.seconds > b.seconds;
  });
  if (lags.size() > max) lags.resize(max);
  return lags;
}

}  // namespace lockstep::core
