// The part of Job about restarts of the coordinator and adopted jobs: every
// member must resume. epoch_resume.cc says how the epoch goes on.

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/core/commands.h"
#include "server/core/job.h"
#include "server/core/status_text.h"

namespace lockstep::core {

void Job::Revive(absl::Time now) {
  step_ = durable_.steps;
  for (const auto& [worker, departure] : durable_.left) {
    step_ = std::max(step_, departure.steps);
  }
  if (durable_.ended) {
    state_ = StateAfter(durable_.ended->outcome);
    return ReviveLeavers(now);
  }
  if (!durable_.epoch_lives) {
    if (durable_.epoch.value == 0) return;
    AwaitNextEpoch(now);
    if (Wants(durable_.wanted, Command::kDrain)) return;
    AwaitReports(LostBefore(), now);
    reports_by_ = now + spec().timeouts.lease;
    if (EndWasLost()) pulse_ = now;
    return;
  }
  epoch_.emplace(durable_, roster_, log_, checkpoints_, now);
  epoch_->Revive();
  for (const protocol::Member& member : durable_.members) {
    Worker& worker =
        roster_.Begin(member.worker, member.generation, member.process, now);
    const auto left = durable_.left.find(member.worker);
    if (left != durable_.left.end()) {
      roster_.Move(&worker, WorkerState::kLeft);
      epoch_->RestoreLeft(epoch_->members().RankOf(member.worker),
                          left->second.steps);
      continue;
    }
    roster_.Move(&worker, WorkerState::kSuspect);
    worker.broke = "the coordinator restarted";
    worker.awaited = true;
    leases_.Set(worker.name, now + spec().timeouts.lease);
  }
  pulse_ = epoch_->all_left() ? now : now + stopped_after_;
}

// The members of which it was known that they are gone, before the coordinator
// restarted: the end of the epoch says so, or another process has the name.
std::vector<int> Job::LostBefore() const {
  const protocol::Cause& cause = durable_.cause;
  const bool are_gone = cause.kind == protocol::CauseKind::kProcessDied ||
                        cause.kind == protocol::CauseKind::kLeaseExpired ||
                        cause.kind == protocol::CauseKind::kStreamLost ||
                        cause.kind == protocol::CauseKind::kReplaced;
  std::vector<int> lost;
  int rank = 0;
  for (const protocol::Member& member : durable_.members) {
    const auto newest = durable_.name_holders.find(member.worker);
    const bool is_replaced = newest != durable_.name_holders.end() &&
                             newest->second.generation != member.generation;
    const bool is_blamed =
        are_gone && std::find(cause.workers.begin(), cause.workers.end(),
                              member.worker) != cause.workers.end();
    if (is_blamed || is_replaced) lost.push_back(rank);
    ++rank;
  }
  return lost;
}

// A member of a job that is over may have left without having received Left.
void Job::ReviveLeavers(absl::Time now) {
  for (const protocol::Member& member : durable_.members) {
    if (durable_.left.count(member.worker) == 0) continue;
    const auto newest = durable_.name_holders.find(member.worker);
    const bool has_joined_since =
        newest != durable_.name_holders.end() &&
        newest->second.generation != member.generation;
    if (has_joined_since) continue;
    roster_.Move(
        &roster_.Begin(member.worker, member.generation, member.process, now),
        WorkerState::kLeft);
  }
}

void Job::BeginAdopted(EventContext& context) {
  Revive(context.now);
  Remember(absl::StrFormat("epoch %d is adopted: all its %s offered it, which "
                           "this coordinator did not know",
                           durable_.epoch.value,
                           Count(durable_.members.size(), "worker")),
           context);
}

void Job::TurnAway(const absl::Status& why, EventContext& context) {
  for (auto& [worker_name, worker] : roster_.workers()) {
    if (worker.session.value == 0) continue;
    context.out.Refuse(std::exchange(worker.session, {}), name(), why);
  }
}

// The epochs of this job are 1, 2, ..., or begin with the adopted one; earlier
// ones are unknown. In a job that began after a repair of the journal they are
// above the floor, and epochs up to it are of a job that the repair has lost.
bool Job::IsForeign(const protocol::Hello& hello) const {
  const protocol::ResumeState& held = *hello.resume;
  if (held.members_digest.empty()) return false;  // not reported
  if (held.epoch > durable_.epoch) return true;
  if (held.epoch <= durable_.epoch_floor && !durable_.members_digests.empty() &&
      durable_.members_digests.begin()->first > durable_.epoch_floor) {
    return true;
  }
  const auto ours = durable_.members_digests.find(held.epoch);
  return ours != durable_.members_digests.end() &&
         ours->second != held.members_digest;
}

void Job::NoteForeign(const protocol::Hello& hello, EventContext& context) {
  constexpr size_t kForeignMax = 8;
  const protocol::ResumeState& held = *hello.resume;
  if (foreign_.size() == kForeignMax) return;
  const bool is_new =
      foreign_.insert(absl::StrCat(held.epoch.value, " ", held.members_digest))
          .second;
  if (!is_new) return;
  log_.Warn(
      absl::StrFormat(
          "another job %s runs, of which this coordinator did not know when "
          "this one began: %s resumes in its epoch %d. Its workers train to "
          "their end without a coordinator; what is asked of job %s does not "
          "reach them",
          spec().name, Who(hello.worker, held.rank, hello.process),
          held.epoch.value, spec().name),
      context);
}

bool Job::EndWasLost() const {
  if (over()) return false;
  if (epoch_) return epoch_->all_left();
  if (AllHaveFinished()) return true;
  return durable_.epoch.value != 0 && Wants(durable_.wanted, Command::kStop);
}

// The last rank had left, but the end of the epoch or job was not recorded.
void Job::EndAfterRestart(EventContext& context) {
  if (!epoch_ && AllHaveFinished()) {
    return EndWithTheFinished(context);
  }
  if (!epoch_) return Stop(durable_.wanted.reason, context);
  // All ranks left by the same verdict, so each departure has the command.
  EndAfterLastStep(durable_.left.begin()->second.command, context);
}

}  // namespace lockstep::core
