// The part of Epoch about leaving and broken connections.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "server/core/commands.h"
#include "server/core/epoch.h"
#include "server/core/status_text.h"

namespace lockstep::core {

using protocol::CauseKind;

void Epoch::RecordLeave(int rank, const protocol::Leave& leave,
                        EventContext& event) {
  EpochContext context = With(event);
  committed_ = std::max(committed_, leave.steps);
  if (!leave.clean) return;
  context.Record(record::WorkerLeft{members_.epoch(), members_.NameAt(rank),
                                    leave.steps, leave.verdict, leave.command});
  // Reports of other ranks may still be in flight, but no rank remains to send
  // one after the last Leave, and the last rank still receives.
  const bool is_last = departures_.count() + 1 == members_.size();
  WarnOfWhatIsKnown(/*at_once=*/is_last, context);
}

std::optional<EpochEnd> Epoch::Leave(int rank, const protocol::Leave& leave,
                                     EventContext& event) {
  EpochContext context = With(event);
  if (!leave.clean) {
    const Worker& worker = members_.At(rank);
    return EpochEnd{{.kind = CauseKind::kLeft,
                     .workers = {worker.name},
                     .message = absl::StrFormat(
                         "%s left without finishing%s%s, %s",
                         Who(worker.name, rank, worker.process),
                         leave.reason.empty() ? "" : ": ", leave.reason,
                         WhereIs(rank, context.now()))},
                    Again::kIfBudgetAllows,
                    {},
                    worker.name};
  }
  if (departures_.count() == 0 && leave.command) {
    context.Remember(AllRanks(*leave.command, leave.steps));
  }
  recall_.Lose(rank, "left", context);
  RestoreLeft(rank, std::max(leave.steps, durable_.first_step));
  if (started_) recall_.Ask(context);
  checkpoints_.Leave(rank, context);
  if (all_left()) return std::nullopt;
  return EndIfLeaverIsMissed(context);
}

void Epoch::RestoreLeft(int rank, uint64_t steps) {
  steps_.progress().Drop(rank);
  departures_.Leave(rank, steps, members_);
  checkpoints_.RestoreLeft(rank);
  recall_.Leave(rank);
}

std::optional<EpochEnd> Epoch::Accuse(const protocol::Evidence& evidence,
                                      const WorkerName& reporter,
                                      EventContext& event) {
  EpochContext context = With(event);
  if (!departures_.Accuse(evidence, reporter, context)) return std::nullopt;
  return EndIfLeaverIsMissed(context);
}

// A transfer with a rank that has left cleanly has failed.
std::optional<EpochEnd> Epoch::AccuseLeaver(const protocol::Evidence& evidence,
                                            const WorkerName& reporter,
                                            EventContext& event) {
  const bool is_about_a_transfer =
      evidence.kind == protocol::EvidenceKind::kPeerReset ||
      evidence.kind == protocol::EvidenceKind::kPeerSilent;
  if (!is_about_a_transfer) return std::nullopt;
  const int rank = members_.RankOf(reporter);
  const int subject = members_.RankOf(evidence.subject);
  const bool is_missed = rank >= 0 && subject >= 0 &&
                         departures_.HasLeft(subject) &&
                         !departures_.HasLeft(rank);
  if (!is_missed) return std::nullopt;
  return EndByLeaver(rank, With(event));
}

std::optional<EpochEnd> Epoch::EndIfLeaverIsMissed(
    const EpochContext& context) const {
  const std::optional<int> rank = departures_.MissedBy(
      members_, progress(), started_ ? nullptr : &registry_);
  if (!rank) return std::nullopt;
  return EndByLeaver(*rank, context);
}

EpochEnd Epoch::EndByLeaver(int rank, const EpochContext& context) const {
  const int first = departures_.first_leaver();
  const Worker& leaver = members_.At(first);
  std::optional<int> unfinished = departures_.GoesOn(members_, progress());
  const bool is_known = started_ && departures_.IsInLastStep(rank, progress());
  if (!unfinished && !is_known) unfinished = rank;
  return {
      {.kind = CauseKind::kLeft,
       .workers = {leaver.name},
       .message = absl::StrFormat(
           "%s %s after %s, but %s goes on: it is %s",
           Who(leaver.name, first, leaver.process),
           departures_.HasLeft(first) ? "left" : "destroyed its GradientSync",
           Count(departures_.left_at(), "step"), members_.NameAt(rank).value,
           WhereIs(rank, context.now()))},
      Again::kIfBudgetAllows,
      {},
      unfinished ? members_.NameAt(*unfinished) : WorkerName{}};
}

}  // namespace lockstep::core
