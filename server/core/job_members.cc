// Who comes, goes and is lost: the part of Job about its workers.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/core/evidence.h"
#include "server/core/job.h"
#include "server/core/sentences.h"
#include "server/core/token.h"

namespace lockstep::core {

using protocol::CauseKind;

// --- Coming -----------------------------------------------------------------

void Job::Greet(SessionId session, const protocol::Hello& hello, Turn& turn) {
  const auto refuse = [&](const absl::Status& status) {
    turn.out.Refuse(session, name(), status);
  };
  if (!TokenOpens(hello.token, durable_.token_hash)) {
    return refuse(absl::PermissionDeniedError(
        absl::StrFormat("the token of %s is not that of job %s",
                        hello.worker.value, spec().name)));
  }
  if (over()) return GreetAfterEnd(session, hello, turn);
  if (hello.spec) {
    const absl::Status same = SameSpec(spec(), *hello.spec, hello.worker);
    if (!same.ok()) return refuse(same);
  }

  const Admission admission = Admit(TheDoor(hello.worker), hello, turn.now);
  if (const auto* refusal = std::get_if<absl::Status>(&admission)) {
    return refuse(*refusal);
  }
  if (std::holds_alternative<NewLife>(admission)) {
    BeginLife(session, hello, turn);
  } else {
    ContinueLife(session, hello, turn);
  }
}

// Who was part of the last epoch, or of none since, gets to know how it ended.
void Job::GreetAfterEnd(SessionId session, const protocol::Hello& hello,
                        Turn& turn) {
  Worker* worker = roster_.Find(hello.worker);
  const bool is_known = worker != nullptr && hello.generation.value != 0 &&
                        hello.generation == worker->generation &&
                        worker->exited.empty();
  if (!is_known || !hello.resume) {
    return turn.out.Refuse(session, name(), Over());
  }
  Attach(worker, session, hello, /*resumed=*/true, turn);
  if (worker->state == WorkerState::kLeft) {
    Tell(*worker, protocol::Left{}, turn);
    return Detach(worker, absl::OkStatus(), turn);
  }
  turn.out.Send(session, name(), hello.resume->epoch,
                protocol::EpochEnded{durable_.ended->cause, /*final=*/true});
}

void Job::BeginLife(SessionId session, const protocol::Hello& hello,
                    Turn& turn) {
  if (Worker* old = roster_.Find(hello.worker)) {
    if (IsMember(*old)) {
      Lose(CauseKind::kReplaced,
           {{old, absl::StrFormat("lost its stream (%s), and a new life of it "
                                  "(host %s, pid %d) took its place",
                                  old->broke, hello.process.host,
                                  hello.process.pid)}},
           turn);
      if (over()) return turn.out.Refuse(session, name(), Over());
    }
    if (old->session == session) old->session = {};
    Detach(old,
           absl::AbortedError(absl::StrFormat(
               "generation %d of %s is over: a new life took the name",
               old->generation.value, old->name.value)),
           turn);
  }
  const Generation generation{TheDoor(hello.worker).newest.value + 1};
  turn.out.Record(name(), record::GenerationAssigned{hello.worker, generation});
  Worker& worker = roster_.Begin(hello.worker, generation, hello.life,
                                 hello.process, turn.now);
  Attach(&worker, session, hello, /*resumed=*/false, turn);
  Arrive(&worker, turn);
}

void Job::ContinueLife(SessionId session, const protocol::Hello& hello,
                       Turn& turn) {
  Worker* worker = roster_.Find(hello.worker);
  if (worker == nullptr) {  // known from an earlier life of the coordinator
    worker = &roster_.Begin(hello.worker, hello.generation, hello.life,
                            hello.process, turn.now);
    roster_.Move(worker, WorkerState::kLost);
  }
  const bool member = IsMember(*worker);
  const bool is_here = worker->arrived;
  const bool left = worker->state == WorkerState::kLeft;
  const EpochId held = hello.resume ? hello.resume->epoch : EpochId{};
  const bool missed_the_end =
      !member && !is_here && !left && held.value != 0 && held <= durable_.epoch;
  const bool comes_again = !member && !is_here && !left && !missed_the_end;
  if (comes_again && !worker->seated()) {
    const Door door = TheDoor(hello.worker);
    if (epoch_ || roster_.seated() >= spec().mesh.WorldSize()) {
      return turn.out.Refuse(session, name(), Full(door, hello.worker));
    }
    roster_.Move(worker, WorkerState::kJoining);
  }

  Attach(worker, session, hello, /*resumed=*/true, turn);
  if (left) {
    Tell(*worker, protocol::Left{}, turn);
    Detach(worker, absl::OkStatus(), turn);
  } else if (member) {
    const bool held_plan = hello.resume && !durable_.plan_digest.empty() &&
                           hello.resume->plan_digest == durable_.plan_digest;
    if (held_plan) epoch_->held_plan.Add(RankOf(*worker));
    Restate(*worker, turn);
  } else if (missed_the_end) {
    turn.out.Send(session, name(), held,
                  protocol::EpochEnded{durable_.cause, /*final=*/false});
  } else if (comes_again) {
    Arrive(worker, turn);
  } else {
    TryForm(turn);
  }
}

void Job::Attach(Worker* worker, SessionId session,
                 const protocol::Hello& hello, bool resumed, Turn& turn) {
  if (worker->session != session) {
    turn.out.Close(worker->session,
                   absl::AbortedError(absl::StrFormat(
                       "%s speaks on another stream now", worker->name.value)));
  }
  turn.out.Bind(session, {name(), worker->name});
  worker->session = session;
  worker->process = hello.process;
  worker->heard = turn.now;
  resumes_.Clear(worker->name);
  if (worker->state == WorkerState::kSuspect) {
    const int rank = RankOf(*worker);
    const bool ready = rank >= 0 && epoch_->connected.Has(rank);
    roster_.Move(worker, ready ? WorkerState::kReady : WorkerState::kJoining);
    Remember(absl::StrFormat("%s resumes", WhoIs(*worker)), turn);
  }
  if (worker->seated() && !over()) {
    leases_.Set(worker->name, turn.now + spec().timeouts.lease);
    pulse_ = std::min(pulse_, turn.now + stopped_after_);
  }
  Tell(*worker, protocol::Welcome{worker->generation, spec(), resumed}, turn);
}

// Repeats whatever a member should know; it takes each as idempotent.
void Job::Restate(const Worker& worker, Turn& turn) {
  const int rank = RankOf(worker);
  epoch_->registry.Repeat(rank);
  epoch_->early.erase(rank);
  Tell(worker, protocol::EpochFormed{rank, epoch_->members}, turn);
  if (durable_.revision.value != 0) {
    Tell(worker, protocol::PlanReady{durable_.revision, durable_.plan_digest},
         turn);
  }
  if (epoch_->handles) {
    for (const int communicator : epoch_->handles->CompleteOf(rank)) {
      Tell(worker, epoch_->handles->Complete(communicator), turn);
    }
  }
  if (epoch_->started) Tell(worker, protocol::Start{}, turn);
}

// --- Going ------------------------------------------------------------------

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
    if (rank >= 0) {
      absl::StrAppend(&sentence, ", ", WhereIs(rank));
      cause.workers.push_back(worker->name);
      sentences.push_back(sentence);
    } else {
      Remember(std::move(sentence), turn);
    }
    leases_.Clear(worker->name);
    resumes_.Clear(worker->name);
  }
  cause.message = absl::StrJoin(sentences, "; ");
  for (const Loss& loss : losses) {
    roster_.Move(loss.worker, WorkerState::kLost);
  }
  if (!cause.workers.empty()) {
    EndEpoch(std::move(cause), Again::kIfBudgetAllows, turn);
  } else if (roster_.arrived().empty() && durable_.epoch.value == 0) {
    join_by_ = absl::InfiniteFuture();
  }
}

void Job::Consider(const protocol::Evidence& evidence,
                   const WorkerName& accuser, Turn& turn) {
  Worker* subject = roster_.Find(evidence.subject);
  switch (over() ? Weight::kNothing : Weigh(evidence, subject)) {
    case Weight::kNothing: return;
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
  const bool reset = evidence.kind == protocol::EvidenceKind::kPeerReset;
  epoch_->accusations.Add(
      {.accuser = accuser,
       .accused = subject->name,
       .what = absl::StrCat(
           reset ? "reset" : "is silent on", " their data connection",
           evidence.detail.empty() ? "" : ": ", evidence.detail),
       .answer_by = turn.now + spec().timeouts.resume});
}

// --- Leaving ----------------------------------------------------------------

void Job::On(Worker* worker, const protocol::Leave& leave, Turn& turn) {
  const int rank = RankOf(*worker);
  const std::string who = WhoIs(*worker);
  Tell(*worker, protocol::Left{}, turn);
  Detach(worker, absl::OkStatus(), turn);
  roster_.Move(worker, WorkerState::kLeft);
  Remember(absl::StrFormat("%s leaves %s after %s%s%s", who,
                           leave.clean ? "in order" : "without finishing",
                           Count(leave.steps, "step"),
                           leave.reason.empty() ? "" : ": ", leave.reason),
           turn);
  if (rank >= 0) return LeaveEpoch(worker, rank, leave, turn);
  if (roster_.arrived().empty() && durable_.epoch.value == 0) {
    join_by_ = absl::InfiniteFuture();
  }
}

void Job::LeaveEpoch(Worker* worker, int rank, const protocol::Leave& leave,
                     Turn& turn) {
  if (!leave.clean) {
    std::string message = absl::StrFormat(
        "%s left without finishing%s%s, %s",
        Who(worker->name, rank, worker->process),
        leave.reason.empty() ? "" : ": ", leave.reason, WhereIs(rank));
    return EndEpoch({.kind = CauseKind::kLeft,
                     .workers = {worker->name},
                     .message = std::move(message)},
                    Again::kIfBudgetAllows, turn);
  }
  epoch_->left.Add(rank);
  epoch_->board.Drop(rank);
  epoch_->accusations.Drop(worker->name);
  if (leave.steps < epoch_->left_at) {
    epoch_->left_at = leave.steps;
    epoch_->first_leaver = rank;
  }
  if (epoch_->left.full()) {
    return EndJob(record::Outcome::kCompleted, {}, turn);
  }
  EndIfLeaverIsMissed(turn);
}

// Ranks pass the last verdict within moments of each other, so who has left may
// be ahead of what the others have said. It is missed only when a rank that
// stays needs it: it has begun to register with a rank that never will, or it
// has submitted the gradients of a step that the leaver did not train.
void Job::EndIfLeaverIsMissed(Turn& turn) {
  if (!epoch_ || epoch_->left.empty()) return;
  const auto needs_it = [this](int rank) {
    if (!epoch_->board.of(rank).present) return false;
    if (!epoch_->started) return epoch_->registry.begun(rank);
    return epoch_->board.of(rank).position >
           protocol::Position{epoch_->left_at, protocol::Phase::kCompute};
  };
  const bool too_far =
      epoch_->board.Furthest() >
      protocol::Position{epoch_->left_at, protocol::Phase::kCompute};
  if (epoch_->started && !too_far) return;
  int rank = 0;
  while (rank < epoch_->size() && !needs_it(rank)) ++rank;
  if (rank == epoch_->size()) return;

  const Worker& leaver = *AtRank(epoch_->first_leaver);
  EndEpoch(
      {.kind = CauseKind::kLeft,
       .workers = {leaver.name},
       .message = absl::StrFormat(
           "%s left after %s, but %s goes on: it is %s",
           Who(leaver.name, epoch_->first_leaver, leaver.process),
           Count(epoch_->left_at, "step"), NameAt(rank).value, WhereIs(rank))},
      Again::kIfBudgetAllows, turn);
}

// --- Questions --------------------------------------------------------------

Door Job::TheDoor(const WorkerName& worker) const {
  const auto newest = durable_.generations.find(worker);
  return {.spec = spec(),
          .roster = roster_,
          .newest = newest == durable_.generations.end() ? Generation{}
                                                         : newest->second,
          .epoch_lives = epoch_.has_value()};
}

int Job::RankOf(const Worker& worker) const {
  const bool may_be = epoch_ && worker.seated();
  return may_be ? epoch_->RankOf(worker.name) : -1;
}

std::string Job::WhoIs(const Worker& worker) const {
  return Who(worker.name, RankOf(worker), worker.process);
}

}  // namespace lockstep::core
