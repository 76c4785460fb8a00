// The part of Job about broken streams, evidence and leaving.

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
#include "server/core/status_text.h"

namespace lockstep::core {

using protocol::CauseKind;

// --- Streams ----------------------------------------------------------------

void Job::StreamClosed(SessionId session, const WorkerName& name,
                       const std::string& why, EventContext& context) {
  Worker* worker = roster_.Find(name);
  if (worker == nullptr || worker->session != session) return;
  worker->session = {};
  if (over() || !worker->seated()) return;
  worker->broke = why;
  roster_.Move(worker, WorkerState::kSuspect);
  resumes_.Set(name, context.now + spec().timeouts.resume);
  Remember(absl::StrFormat("%s lost its stream: %s", WhoIs(*worker), why),
           context);
}

void Job::Detach(Worker* worker, absl::Status why, EventContext& context) {
  leases_.Clear(worker->name);
  resumes_.Clear(worker->name);
  context.out.Close(std::exchange(worker->session, {}), std::move(why));
}

void Job::Lose(CauseKind kind, const std::vector<Loss>& losses,
               EventContext& context) {
  protocol::Cause cause{.kind = kind};
  std::vector<std::string> sentences;
  for (const auto& [worker, what] : losses) {
    const int rank = RankOf(*worker);
    std::string sentence = absl::StrCat(WhoIs(*worker), " ", what);
    if (rank < 0) {
      // If it is alive after all, it must join again.
      Detach(worker, absl::UnavailableError(sentence), context);
      Remember(std::move(sentence), context);
    } else {
      leases_.Clear(worker->name);
      resumes_.Clear(worker->name);
      cause.workers.push_back(worker->name);
      sentences.push_back(
          absl::StrCat(sentence, ", ", WhereIs(rank, context.now)));
    }
  }
  cause.message = absl::StrJoin(sentences, "; ");
  for (const Loss& loss : losses) {
    roster_.Move(loss.worker, WorkerState::kLost);
  }
  if (!cause.workers.empty()) {
    EndEpoch(std::move(cause), Again::kIfBudgetAllows, context);
  }
  ForgetDeadlineIfNobodyIsHere();
}

// The join deadline counts from the first arrival, or from the end of an epoch
// that was not drained.
void Job::ForgetDeadlineIfNobodyIsHere() {
  const bool counts_from_arrival =
      durable_.epoch.value == 0 || Wants(durable_.wanted, Command::kDrain);
  if (roster_.arrived().empty() && counts_from_arrival && !epoch_) {
    join_by_ = absl::InfiniteFuture();
  }
}

void Job::OnEvidence(const protocol::Evidence& evidence,
                     const WorkerName& reporter, EventContext& context) {
  Worker* subject = roster_.Find(evidence.subject);
  const Weight weight = Weigh(evidence, subject);
  if (over() && weight != Weight::kNothing) return;
  switch (weight) {
    case Weight::kStranger: return NoteStranger(evidence, subject, context);
    case Weight::kNothing:
      AddProof(evidence, subject, context);
      return EndIfLeaverBrokeLink(evidence, reporter, context);
    case Weight::kProof:
      subject->exited = evidence.detail.empty() ? "no detail" : evidence.detail;
      Detach(subject,
             absl::AbortedError(absl::StrFormat("%s was reported dead: %s",
                                                subject->name.value,
                                                subject->exited)),
             context);
      return Lose(CauseKind::kProcessDied,
                  {{subject, absl::StrCat("died: ", subject->exited)}},
                  context);
    case Weight::kHint: break;
  }
  const bool between_members = IsMember(*subject) &&
                               reporter != subject->name &&
                               epoch_->RankOf(reporter) >= 0;
  if (!between_members) return;
  const bool silent = evidence.kind == protocol::EvidenceKind::kPeerSilent;
  epoch_->accusations.Add(
      {.reporter = reporter,
       .accused = subject->name,
       .what = absl::StrCat(
           silent ? "is silent on" : "reset", " their data connection",
           evidence.detail.empty() ? "" : ": ", evidence.detail),
       .answer_by = context.now + spec().timeouts.resume,
       .silent = silent,
       .made = context.now});
  EndIfLeaverIsMissed(context);
}

// A transfer with a rank that has left cleanly has failed.
void Job::EndIfLeaverBrokeLink(const protocol::Evidence& evidence,
                               const WorkerName& reporter,
                               EventContext& context) {
  if (!epoch_ || evidence.kind == protocol::EvidenceKind::kExited) return;
  const int rank = epoch_->RankOf(reporter);
  const int subject = epoch_->RankOf(evidence.subject);
  if (rank < 0 || subject < 0 || !epoch_->left.Has(subject)) return;
  if (!epoch_->left.Has(rank)) EndByLeaver(rank, context);
}

// A survivor's pidfd reports that a process has ended shortly before its
// launcher reports how: the launcher's detail is added to the displayed cause.
void Job::AddProof(const protocol::Evidence& evidence, const Worker* subject,
                   EventContext& context) {
  const auto& lost = durable_.cause.workers;
  const bool is_about_cause =
      subject->state == WorkerState::kLost &&
      evidence.kind == protocol::EvidenceKind::kExited && !epoch_ &&
      std::find(lost.begin(), lost.end(), subject->name) != lost.end();
  if (!is_about_cause || evidence.detail.empty()) return;
  const std::string& known = durable_.cause.message;
  if (absl::StrContains(known, evidence.detail)) return;
  if (!proofs_.emplace(subject->name, evidence.detail).second) return;
  Remember(absl::StrCat(WhoIs(*subject), ": ", evidence.detail), context);
  if (over()) return;
  protocol::Cause cause = durable_.cause;
  cause.message += AddedProof(cause.message);
  context.out.Record(
      name(),
      record::EpochFinished{durable_.epoch, std::move(cause), durable_.steps});
}

std::string Job::AddedProof(const std::string& message) const {
  std::string added;
  for (const auto& [worker, detail] : proofs_) {
    if (absl::StrContains(message, detail)) continue;
    absl::StrAppend(&added, " (", worker.value, ": ", detail, ")");
  }
  return added;
}

// Anyone may send such evidence, any number of times: its text is truncated.
void Job::NoteStranger(const protocol::Evidence& evidence,
                       const Worker* subject, EventContext& context) {
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
           context);
}

// --- Leaving ----------------------------------------------------------------

void Job::On(Worker* worker, const protocol::Leave& leave,
             EventContext& context) {
  const int rank = RankOf(*worker);
  const std::string who = WhoIs(*worker);
  if (rank >= 0) step_ = std::max(step_, leave.steps);
  if (rank >= 0 && leave.clean) {
    context.out.Record(name(), record::WorkerLeft{epoch_->id, worker->name,
                                                  leave.steps, leave.command});
    // Reports of other ranks may still be in flight, but no rank remains to
    // send one after the last Leave, and the last rank still receives.
    const bool is_last = epoch_->left.count() + 1 == epoch_->size();
    WarnOfWhatIsKnown(/*at_once=*/is_last, context);
  }
  SendTo(*worker, protocol::Left{}, context);
  Detach(worker, absl::OkStatus(), context);
  roster_.Move(worker, WorkerState::kLeft);
  Remember(absl::StrFormat("%s leaves %s after %s%s%s", who,
                           leave.clean ? "in order" : "without finishing",
                           Count(leave.steps, "step"),
                           leave.reason.empty() ? "" : ": ", leave.reason),
           context);
  if (rank >= 0) return LeaveEpoch(worker, rank, leave, context);
  ForgetDeadlineIfNobodyIsHere();
}

void Job::LeaveEpoch(Worker* worker, int rank, const protocol::Leave& leave,
                     EventContext& context) {
  if (!leave.clean) {
    std::string message =
        absl::StrFormat("%s left without finishing%s%s, %s",
                        Who(worker->name, rank, worker->process),
                        leave.reason.empty() ? "" : ": ", leave.reason,
                        WhereIs(rank, context.now));
    return EndEpoch({.kind = CauseKind::kLeft,
                     .workers = {worker->name},
                     .message = std::move(message)},
                    Again::kIfBudgetAllows, context);
  }
  if (epoch_->left.empty() && leave.command) {
    Remember(AllRanks(*leave.command, leave.steps), context);
  }
  NoteLeft(rank, std::max(leave.steps, epoch_->first_step));
  if (epoch_->left.full()) return EndAfterLastStep(leave.command, context);
  EndIfLeaverIsMissed(context);
}

void Job::NoteLeft(int rank, uint64_t steps) {
  epoch_->left.Add(rank);
  epoch_->progress.Drop(rank);
  // A rank that has reported a broken link leaves because of that link:
  // reports about the rank itself are dropped.
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

// Ranks pass the last verdict at slightly different times, so a leaver may be
// ahead of the other ranks' reports. It is missed only when a remaining rank
// needs it: that rank has begun to register although the leaver never will, or
// has submitted the gradients of a step that the leaver did not train, or a
// transfer with the leaver has failed. A withdrawn rank counts as a leaver.
void Job::EndIfLeaverIsMissed(EventContext& context) {
  if (!epoch_ || epoch_->first_leaver < 0) return;
  for (const Accusation& accusation : epoch_->accusations.open()) {
    const int accused = epoch_->RankOf(accusation.accused);
    if (epoch_->left.Has(accused) || epoch_->progress.of(accused).withdrawn) {
      return EndByLeaver(epoch_->RankOf(accusation.reporter), context);
    }
  }
  const bool all_may_pass =
      epoch_->started && epoch_->progress.Furthest() <= LastWordOfLeaver();
  for (int rank = 0; rank < epoch_->size() && !all_may_pass; ++rank) {
    const RankProgress& standing = epoch_->progress.of(rank);
    if (!standing.present || standing.withdrawn) continue;
    if (epoch_->started ? standing.position > LastWordOfLeaver()
                        : epoch_->registry.begun(rank)) {
      return EndByLeaver(rank, context);
    }
  }
}

// A rank that has only begun to compute may still stop and leave too.
protocol::Position Job::LastWordOfLeaver() const {
  return {epoch_->left_at, protocol::Phase::kCompute};
}

void Job::EndByLeaver(int rank, EventContext& context) {
  const Worker& leaver = *AtRank(epoch_->first_leaver);
  const bool has_left = epoch_->left.Has(epoch_->first_leaver);
  EndEpoch({.kind = CauseKind::kLeft,
            .workers = {leaver.name},
            .message = absl::StrFormat(
                "%s %s after %s, but %s goes on: it is %s",
                Who(leaver.name, epoch_->first_leaver, leaver.process),
                has_left ? "left" : "destroyed its GradientSync",
                Count(epoch_->left_at, "step"), NameAt(rank).value,
                WhereIs(rank, context.now))},
           Again::kIfBudgetAllows, context);
}

}  // namespace lockstep::core
