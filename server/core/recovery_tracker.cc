#include "server/core/recovery_tracker.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::core {
namespace {

// A rank one step behind has all that it needs: it waited for the verdict.
bool CanRollForward(const protocol::EpochReport& report, uint64_t steps) {
  return report.position.step + 1 == steps &&
         report.position.phase == protocol::Phase::kVerdict;
}

}  // namespace

RecoveryTracker::RecoveryTracker(const SharedList<protocol::Member>& members,
                                 const std::map<WorkerName, Departure>& left) {
  for (const protocol::Member& member : members) {
    ranks_[member.worker] = names_.size();
    names_.push_back(member.worker);
    const auto departure = left.find(member.worker);
    if (departure == left.end()) {
      standing_.emplace_back(Awaiting{});
      returning_.insert(ranks_[member.worker]);
      ++awaited_;
    } else {
      standing_.emplace_back(departure->second);
    }
  }
}

void RecoveryTracker::Report(const WorkerName& worker,
                             const protocol::EpochReport& report) {
  const auto found = ranks_.find(worker);
  if (found == ranks_.end()) return;
  Standing& standing = standing_[found->second];
  if (std::holds_alternative<Awaiting>(standing)) {
    --awaited_;
  } else if (!std::holds_alternative<Gone>(standing)) {
    return;
  }
  standing = report;
  returning_.insert(found->second);
}

void RecoveryTracker::Leave(const WorkerName& worker,
                            const Departure& departure) {
  Settle(worker, departure);
}

void RecoveryTracker::Forget(const WorkerName& worker) {
  Settle(worker, Gone{});
}

void RecoveryTracker::LeaveToReturn(const WorkerName& worker) {
  const auto found = ranks_.find(worker);
  const bool is_expected =
      found != ranks_.end() && returning_.count(found->second) > 0;
  if (is_expected) away_.insert(found->second);
}

bool RecoveryTracker::IsAway(const WorkerName& worker) const {
  const auto found = ranks_.find(worker);
  return found != ranks_.end() && away_.count(found->second) > 0;
}

void RecoveryTracker::Settle(const WorkerName& worker, Standing as) {
  const auto found = ranks_.find(worker);
  if (found == ranks_.end()) return;
  returning_.erase(found->second);
  away_.erase(found->second);
  Standing& standing = standing_[found->second];
  if (!std::holds_alternative<Awaiting>(standing)) return;
  standing = std::move(as);
  --awaited_;
}

std::vector<WorkerName> RecoveryTracker::Awaited() const {
  std::vector<WorkerName> awaited;
  for (size_t rank = 0; rank < names_.size(); ++rank) {
    if (std::holds_alternative<Awaiting>(standing_[rank])) {
      awaited.push_back(names_[rank]);
    }
  }
  return awaited;
}

std::vector<WorkerName> RecoveryTracker::Returning() const {
  std::vector<WorkerName> returning;
  for (const size_t rank : returning_) returning.push_back(names_[rank]);
  return returning;
}

bool RecoveryTracker::any_reported() const {
  return std::any_of(
      standing_.begin(), standing_.end(), [](const Standing& standing) {
        return std::holds_alternative<protocol::EpochReport>(standing);
      });
}

protocol::RecoveryDecision RecoveryTracker::Decide() const {
  protocol::RecoveryDecision decision;
  std::string verdict;  // of step decision.steps - 1
  // A leaver that is ahead without a verdict took it along: nobody can follow.
  const auto count = [&](uint64_t steps, const std::string& of_last,
                         bool is_here) {
    if (steps < decision.steps || (!is_here && of_last.empty())) return;
    if (steps > decision.steps) verdict.clear();
    decision.steps = steps;
    if (verdict.empty()) verdict = of_last;
  };
  for (const Standing& standing : standing_) {
    if (const auto* report = std::get_if<protocol::EpochReport>(&standing)) {
      if (report->holds_state) {
        count(report->position.step, report->verdict, /*is_here=*/true);
      }
    } else if (const auto* left = std::get_if<Departure>(&standing)) {
      count(left->steps, left->verdict, /*is_here=*/false);
    }
  }
  bool somebody_is_behind = false;
  for (size_t rank = 0; rank < standing_.size(); ++rank) {
    const auto* report = std::get_if<protocol::EpochReport>(&standing_[rank]);
    if (report == nullptr || !report->holds_state) continue;
    const bool is_behind = report->position.step != decision.steps;
    const bool can_follow =
        CanRollForward(*report, decision.steps) && !verdict.empty();
    if (is_behind && !can_follow) continue;
    somebody_is_behind |= is_behind;
    decision.holders.push_back(static_cast<uint32_t>(rank));
  }
  if (somebody_is_behind) decision.verdict = std::move(verdict);
  return decision;
}

std::string DecisionText(const protocol::RecoveryDecision& decision) {
  if (decision.holders.empty()) return "no member holds the state any more";
  return decision.verdict.empty()
             ? absl::StrCat("replay step ", decision.steps)
             : absl::StrCat("roll forward to step ", decision.steps);
}

}  // namespace lockstep::core
