#include "tests/sim/recovery_oracle.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/adoption.h"

namespace lockstep::sim {
namespace {

// Below the resume window of a job, less what clocks differ.
constexpr absl::Duration kSilence = absl::Milliseconds(900);
// More than two heartbeats.
constexpr absl::Duration kHere = absl::Milliseconds(400);

bool IsBlamed(const protocol::Cause& cause, const WorkerName& worker) {
  return std::find(cause.workers.begin(), cause.workers.end(), worker) !=
         cause.workers.end();
}

}  // namespace

void RecoveryOracle::Heard(absl::Time now, const protocol::Hello& hello,
                           const protocol::ToCoordinator& message) {
  Process& process = processes_[hello.process.pid];
  newest_[hello.worker.value] = hello.process.pid;
  process.was_silent |= now - process.heard > kSilence;
  process.heard = now;
  const auto* said = std::get_if<protocol::Hello>(&message.body);
  // It joins anew: it was not told that it is a member, or has left already.
  if (said != nullptr && !core::IsInEpoch(*said)) process.left = true;
  if (message.epoch != epoch_) return;
  if (const auto* report = std::get_if<protocol::EpochReport>(&message.body)) {
    process.report = *report;
  } else if (std::holds_alternative<protocol::Leave>(message.body)) {
    process.left = true;
  }
}

std::optional<std::string> RecoveryOracle::Check(
    absl::Time now, const record::Body& body, const core::DurableJob& job,
    const std::function<bool(uint64_t process)>& lives) {
  if (const auto* decided = std::get_if<record::RecoveryDecided>(&body)) {
    return CheckDecision(now, decided->decision, job, lives);
  }
  const auto* began = std::get_if<record::EpochBegan>(&body);
  if (began == nullptr) return std::nullopt;
  const bool any_reported =
      std::any_of(processes_.begin(), processes_.end(), [&](const auto& entry) {
        return entry.second.report && !entry.second.was_silent &&
               lives(static_cast<uint64_t>(entry.first));
      });
  epoch_ = began->epoch;
  // A member may have been silent since it joined.
  const auto before = std::exchange(processes_, {});
  for (const protocol::Member& member : began->members) {
    const auto found = before.find(member.process.pid);
    processes_[member.process.pid].heard =
        found == before.end() ? now : found->second.heard;
  }
  if (!any_reported || job.recovery) return std::nullopt;
  return absl::StrCat("epoch ", epoch_.value,
                      " begins, and how training goes on after epoch ",
                      job.epoch.value, " is not decided, though reported");
}

std::optional<std::string> RecoveryOracle::CheckDecision(
    absl::Time now, const protocol::RecoveryDecision& decision,
    const core::DurableJob& job,
    const std::function<bool(uint64_t process)>& lives) const {
  for (const auto& [worker, left] : job.left) {
    if (left.verdict.empty() || left.steps <= decision.steps) continue;
    return absl::StrCat(worker.value, " left epoch ", epoch_.value, " after ",
                        left.steps, " steps, and training goes on after ",
                        decision.steps);
  }
  for (const protocol::Member& member : job.members.items()) {
    const auto found = processes_.find(member.process.pid);
    const auto newest = newest_.find(member.worker.value);
    if (found == processes_.end() || newest == newest_.end()) continue;
    const Process& process = found->second;
    const bool is_here = newest->second == member.process.pid &&
                         !process.was_silent && now - process.heard < kHere &&
                         !IsBlamed(job.cause, member.worker) &&
                         lives(static_cast<uint64_t>(member.process.pid));
    if (!is_here || process.left) continue;
    if (!process.report) {
      return absl::StrCat("the recovery from epoch ", epoch_.value,
                          " is decided before ", member.worker.value,
                          " has reported, which is heard");
    }
    if (process.report->holds_state &&
        process.report->position.step > decision.steps) {
      return absl::StrCat(member.worker.value, " has passed step ",
                          process.report->position.step - 1, " of epoch ",
                          epoch_.value, ", and training goes on after ",
                          decision.steps, " steps");
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::sim
