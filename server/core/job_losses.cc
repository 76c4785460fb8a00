// Who goes and is lost: the part of Job about broken streams, evidence and
// leaving.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/core/commands.h"
#include "server/core/evidence.h"
#include "server/core/job.h"
#include "server/core/sentences.h"

namespace lockstep::core {

using protocol::CauseKind;

// --- Streams ----------------------------------------------------------------

void Job::StreamClosed(SessionId session, const WorkerName& name,
                       const std::string& why, Turn& turn) {
  Worker* worker = roster_.Find(name);
  if (worker == nullptr || worker->session != session) return;
  worker->session = {};
  if (over() || !worker->seated()) return;
  worker->broke = why;
  roster_.Move(worker, WorkerState::kSuspect);
  resumes_.Set(name, turn.now + spec().timeouts.resume);
  Remember(absl::StrFormat("%s lost its stream: %s", WhoIs(*worker), why),
           turn);
}

void Job::Detach(Worker* worker, absl::Status why, Turn& turn) {
  leases_.Clear(worker->name);
  resumes_.Clear(worker->name);
  turn.out.Close(std::exchange(worker->session, {}), std::move(why));
}

void Job::Lose(CauseKind kind, const std::vector<Loss>& losses, Turn& turn) {
  protocol::Cause cause{.kind = kind};
  std::vector<std::string> sentences;
  for (const auto& [worker, what] : losses) {
    const int rank = RankOf(*worker);
    std::string sentence = absl::StrCat(WhoIs(*worker), " ", what);
    if (rank < 0) {
      // Should it live after all, it must come again.
      Detach(worker, absl::UnavailableError(sentence), turn);
      Remember(std::move(sentence), turn);
    } else {
      leases_.Clear(worker->name);
      resumes_.Clear(worker->name);
      cause.workers.push_back(worker->name);
      sentences.push_back(
          absl::StrCat(sentence, ", ", WhereIs(rank, turn.now)));
    }
  }
  cause.message = absl::StrJoin(sentences, "; ");
  for (const Loss& loss : losses) {
    roster_.Move(loss.worker, WorkerState::kLost);
  }
  if (!cause.workers.empty()) {
    EndEpoch(std::move(cause), Again::kIfBudgetAllows, turn);
  }
  ForgetDeadlineIfNobodyIsHere();
}

// The join deadline counts from the first arrival, or the end of an epoch that
// was not drained.
void Job::ForgetDeadlineIfNobodyIsHere() {
  const bool counts_from_arrival =
      durable_.epoch.value == 0 || Wants(durable_.wanted, Command::kDrain);
  if (roster_.arrived().empty() && counts_from_arrival && !epoch_) {
    join_by_ = absl::InfiniteFuture();
  }
}

void Job::Consider(const protocol::Evidence& evidence,
                   const WorkerName& accuser, Turn& turn) {
  Worker* subject = roster_.Find(evidence.subject);
  const Weight weight = Weigh(evidence, subject);
  if (over() && weight != Weight::kNothing) return;
  switch (weight) {
    case Weight::kStranger: return NoteStranger(evidence, subject, turn);
    case Weight::kNothing:
      AddProof(evidence, subject, turn);
      return EndIfLeaverBrokeLink(evidence, accuser, turn);
    case Weight::kProof:
      subject->exited = evidence.detail.empty() ? "no detail" : evidence.detail;
      Detach(subject,
             absl::AbortedError(absl::StrFormat("%s was reported dead: %s",
                                                subject->name.value,
                                                subject->exited)),
             turn);
      return Lose(CauseKind::kProcessDied,
                  {{subject, absl::StrCat("died: ", subject->exited)}}, turn);
    case Weight::kHint: break;
  }
  const bool between_members = IsMember(*subject) && accuser != subject->name &&
                               epoch_->RankOf(accuser) >= 0;
  if (!between_members) return;
  const bool silent = evidence.kind == protocol::EvidenceKind::kPeerSilent;
  epoch_->accusations.Add(
      {.accuser = accuser,
       .accused = subject->name,
       .what = absl::StrCat(
           silent ? "is silent on" : "reset", " their data connection",
           evidence.detail.empty() ? "" : ": ", evidence.detail),
       .answer_by = turn.now + spec().timeouts.resume,
       .silent = silent,
       .made = turn.now});
  EndIfLeaverIsMissed(turn);
}

// A transfer with a rank that has left in order has failed.
void Job::EndIfLeaverBrokeLink(const protocol::Evidence& evidence,
                               const WorkerName& accuser, Turn& turn) {
  if (!epoch_ || evidence.kind == protocol::EvidenceKind::kExited) return;
  const int rank = epoch_->RankOf(accuser);
  const int subject = epoch_->RankOf(evidence.subject);
  if (rank < 0 || subject < 0 || !epoch_->left.Has(subject)) return;
  if (!epoch_->left.Has(rank)) EndByLeaver(rank, turn);
}

// A survivor's pidfd says that a process has ended, a moment before its
// launcher says how: that is added to the cause that people see.
void Job::AddProof(const protocol::Evidence& evidence, const Worker* subject,
                   Turn& turn) {
  const auto& lost = durable_.cause.workers;
  const bool is_about_cause =
      subject->state == WorkerState::kLost &&
      evidence.kind == protocol::EvidenceKind::kExited && !epoch_ &&
      std::find(lost.begin(), lost.end(), subject->name) != lost.end();
  if (!is_about_cause || evidence.detail.empty()) return;
  const std::string& known = durable_.cause.message;
  if (absl::StrContains(known, evidence.detail)) return;
  if (!proofs_.emplace(subject->name, evidence.detail).second) return;
  Remember(absl::StrCat(WhoIs(*subject), ": ", evidence.detail), turn);
  if (over()) return;
  protocol::Cause cause = durable_.cause;
  cause.message += AddedProof(cause.message);
  turn.out.Record(name(), record::EpochEnded{durable_.epoch, std::move(cause),
                                             durable_.steps});
}

std::string Job::AddedProof(const std::string& message) const {
  std::string added;
  for (const auto& [worker, detail] : proofs_) {
    if (absl::StrContains(message, detail)) continue;
    absl::StrAppend(&added, " (", worker.value, ": ", detail, ")");
  }
  return added;
}

// It may be said by anybody, as often as they like: what it brings is cut
// short.
void Job::NoteStranger(const protocol::Evidence& evidence,
                       const Worker* subject, Turn& turn) {
  constexpr size_t kDetailShown = 200;
  const auto [said, is] =
      TellApart(evidence.process,
                subject == nullptr ? evidence.process : subject->process);
  const std::string holder =
      subject == nullptr ? "nobody has that name"
                         : absl::StrFormat("generation %d of it is %s",
                                           subject->generation.value, is);
  const std::string generation =
      evidence.generation.value == 0
          ? ""
          : absl::StrCat("generation ", evidence.generation.value, ", ");
  Remember(absl::StrFormat(
               "evidence about %s has no effect: it is about %s%s (%s), but %s",
               evidence.subject.value, generation, said,
               evidence.detail.substr(0, kDetailShown), holder),
           turn);
}

// --- Leaving ----------------------------------------------------------------

void Job::On(Worker* worker, const protocol::Leave& leave, Turn& turn) {
  const int rank = RankOf(*worker);
  const std::string who = WhoIs(*worker);
  if (rank >= 0) step_ = std::max(step_, leave.steps);
  if (rank >= 0 && leave.clean) {
    turn.out.Record(name(), record::WorkerLeft{epoch_->id, worker->name,
                                               leave.steps, leave.command});
    // What others have to say may still be on its way, but nothing comes after
    // the last of them, which still listens.
    const bool is_last = epoch_->left.count() + 1 == epoch_->size();
    WarnOfWhatIsKnown(/*at_once=*/is_last, turn);
  }
  Tell(*worker, protocol::Left{}, turn);
  Detach(worker, absl::OkStatus(), turn);
  roster_.Move(worker, WorkerState::kLeft);
  Remember(absl::StrFormat("%s leaves %s after %s%s%s", who,
                           leave.clean ? "in order" : "without finishing",
                           Count(leave.steps, "step"),
                           leave.reason.empty() ? "" : ": ", leave.reason),
           turn);
  if (rank >= 0) return LeaveEpoch(worker, rank, leave, turn);
  ForgetDeadlineIfNobodyIsHere();
}

void Job::LeaveEpoch(Worker* worker, int rank, const protocol::Leave& leave,
                     Turn& turn) {
  if (!leave.clean) {
    std::string message =
        absl::StrFormat("%s left without finishing%s%s, %s",
                        Who(worker->name, rank, worker->process),
                        leave.reason.empty() ? "" : ": ", leave.reason,
                        WhereIs(rank, turn.now));
    return EndEpoch({.kind = CauseKind::kLeft,
                     .workers = {worker->name},
                     .message = std::move(message)},
                    Again::kIfBudgetAllows, turn);
  }
  if (epoch_->left.empty() && leave.command) {
    Remember(AllRanks(*leave.command, leave.steps), turn);
  }
  NoteLeft(rank, std::max(leave.steps, epoch_->first_step));
  if (epoch_->left.full()) return EndAfterLastStep(leave.command, turn);
  EndIfLeaverIsMissed(turn);
}

void Job::NoteLeft(int rank, uint64_t steps) {
  epoch_->left.Add(rank);
  epoch_->board.Drop(rank);
  // A rank that has reported a broken link leaves because of that link: the
  // reports about the rank itself are void.
  const bool has_accused = epoch_->accusations.HasAccused(NameAt(rank));
  if (has_accused) epoch_->accusations.Drop(NameAt(rank));
  NoteStopped(rank, steps);
}

void Job::NoteStopped(int rank, uint64_t steps) {
  if (steps < epoch_->left_at) {
    epoch_->left_at = steps;
    epoch_->first_leaver = rank;
  }
}

// Ranks pass the last verdict within moments of each other, so who has left may
// be ahead of what the others have said. It is missed only when a rank that
// stays needs it: it has begun to register with a rank that never will, or it
// has submitted the gradients of a step that the leaver did not train, or a
// transfer with the leaver has failed. A withdrawn rank counts as a leaver.
void Job::EndIfLeaverIsMissed(Turn& turn) {
  if (!epoch_ || epoch_->first_leaver < 0) return;
  for (const Accusation& accusation : epoch_->accusations.open()) {
    const int accused = epoch_->RankOf(accusation.accused);
    if (epoch_->left.Has(accused) || epoch_->board.of(accused).withdrawn) {
      return EndByLeaver(epoch_->RankOf(accusation.accuser), turn);
    }
  }
  const bool all_may_pass =
      epoch_->started && epoch_->board.Furthest() <= LastWordOfLeaver();
  for (int rank = 0; rank < epoch_->size() && !all_may_pass; ++rank) {
    const Standing& standing = epoch_->board.of(rank);
    if (!standing.present || standing.withdrawn) continue;
    if (epoch_->started ? standing.position > LastWordOfLeaver()
                        : epoch_->registry.begun(rank)) {
      return EndByLeaver(rank, turn);
    }
  }
}

// A rank that has only begun to compute may yet stop and leave too.
protocol::Position Job::LastWordOfLeaver() const {
  return {epoch_->left_at, protocol::Phase::kCompute};
}

void Job::EndByLeaver(int rank, Turn& turn) {
  const Worker& leaver = *AtRank(epoch_->first_leaver);
  const bool has_left = epoch_->left.Has(epoch_->first_leaver);
  EndEpoch({.kind = CauseKind::kLeft,
            .workers = {leaver.name},
            .message = absl::StrFormat(
                "%s %s after %s, but %s goes on: it is %s",
                Who(leaver.name, epoch_->first_leaver, leaver.process),
                has_left ? "left" : "destroyed its GradientSync",
                Count(epoch_->left_at, "step"), NameAt(rank).value,
                WhereIs(rank, turn.now))},
           Again::kIfBudgetAllows, turn);
}

}  // namespace lockstep::core
