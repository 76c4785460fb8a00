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
  if (!worker->holds_rank()) return ForgetReturn(*worker, context);
  if (over()) return;
  worker->broke = why;
  worker->broke_at = context.now;
  roster_.Move(worker, WorkerState::kSuspect);
  resumes_.Set(name, context.now + spec().timeouts.resume);
  Remember(absl::StrFormat("%s lost its stream: %s", WhoIs(*worker), why),
           context);
  if (IsMember(*worker)) epoch_->LoseStream(RankOf(*worker), context);
  LoseIfUnreachable(worker, context);
}

// A session keeps its local socket as long as it lives, and a network that
// breaks its stream does not close it.
void Job::LoseIfUnreachable(Worker* worker, EventContext& context) {
  const bool is_closed =
      context.now <= worker->socket_closed + spec().timeouts.resume;
  if (worker->state != WorkerState::kSuspect || worker->awaited || !is_closed) {
    return;
  }
  resumes_.Clear(worker->name);
  Lose(CauseKind::kStreamLost,
       {{worker, absl::StrFormat("lost its stream (%s), and another worker on "
                                 "its host finds its local socket closed",
                                 worker->broke)}},
       context);
}

void Job::Detach(Worker* worker, absl::Status why, EventContext& context) {
  leases_.Clear(worker->name);
  resumes_.Clear(worker->name);
  context.out.Close(std::exchange(worker->session, {}), std::move(why));
}

void Job::Lose(CauseKind kind, const std::vector<Loss>& losses,
               EventContext& context) {
  EpochEnd end{{.kind = kind}, Again::kIfBudgetAllows, {}};
  std::vector<std::string> sentences;
  for (const auto& [worker, what] : losses) {
    const int rank = RankOf(*worker);
    std::string sentence = absl::StrCat(WhoIs(*worker), " ", what);
    if (rank < 0) {
      // If it is alive after all, it must join again.
      Detach(worker, absl::UnavailableError(sentence), context);
      Remember(std::move(sentence), context);
    } else {
      end.lost.push_back(rank);
      end.cause.workers.push_back(worker->name);
      sentences.push_back(
          absl::StrCat(sentence, ", ", epoch_->WhereIs(rank, context.now)));
    }
  }
  end.cause.message = absl::StrJoin(sentences, "; ");
  for (const Loss& loss : losses) {
    roster_.Move(loss.worker, WorkerState::kLost);
  }
  if (!end.lost.empty()) EndEpoch(std::move(end), context);
  for (const Loss& loss : losses) ForgetReport(loss.worker->name, context);
  ForgetDeadlineIfNobodyIsHere();
  ReviseGrowth(context);
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
      if (evidence.kind == protocol::EvidenceKind::kExited) {
        ForgetReturn(*subject, context);
      }
      if (!epoch_) return;
      return EndIf(epoch_->AccuseLeaver(evidence, reporter, context), context);
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
  if (evidence.kind == protocol::EvidenceKind::kSocketClosed) {
    subject->socket_closed = context.now;
    return LoseIfUnreachable(subject, context);
  }
  if (epoch_) EndIf(epoch_->Accuse(evidence, reporter, context), context);
}

// A survivor's pidfd reports that a process has ended shortly before its
// launcher, which knows no generation, reports how: the launcher's detail is
// added to the displayed cause.
void Job::AddProof(const protocol::Evidence& evidence, const Worker* subject,
                   EventContext& context) {
  const auto& lost = durable_.cause.workers;
  const bool is_about_cause =
      subject->state == WorkerState::kLost &&
      evidence.kind == protocol::EvidenceKind::kExited &&
      evidence.generation.value == 0 && !epoch_ &&
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
      name(), record::EpochFinished{durable_.epoch, std::move(cause),
                                    durable_.steps, durable_.unfinished});
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
  if (rank >= 0) epoch_->RecordLeave(rank, leave, context);
  if (rank < 0 && leave.clean) RecordFinished(*worker, leave, context);
  SendTo(*worker, protocol::Left{}, context);
  Detach(worker, absl::OkStatus(), context);
  roster_.Move(worker, WorkerState::kLeft);
  Remember(absl::StrFormat("%s leaves %s after %s%s%s", who,
                           leave.clean ? "in order" : "without finishing",
                           Count(leave.steps, "step"),
                           leave.reason.empty() ? "" : ": ", leave.reason),
           context);
  if (rank < 0) {
    if (leave.clean && recovery_) {
      recovery_->Leave(worker->name,
                       {leave.steps, leave.verdict, leave.command});
    }
    // A survivor has the decision, and comes again in a session of its own.
    const bool returns =
        !leave.clean && leave.returns && recovery_ && durable_.recovery;
    if (returns) {
      recovery_->LeaveToReturn(worker->name);
    } else {
      ForgetReport(worker->name, context);
    }
    if (AllHaveFinished()) return EndAfterRecovery(leave.command, context);
    ForgetDeadlineIfNobodyIsHere();
    return ReviseGrowth(context);
  }
  if (auto end = epoch_->Leave(rank, leave, context)) {
    EndEpoch(*std::move(end), context);
    return ForgetReport(worker->name, context);
  }
  if (epoch_->all_left()) return EndAfterLastStep(leave.command, context);
  ReviseGrowth(context);
}

}  // namespace lockstep::core
