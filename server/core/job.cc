#include "server/core/job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "server/core/assignment.h"
#include "server/core/missing.h"
#include "server/core/sentences.h"

namespace lockstep::core {

namespace {

JobState StateAfter(record::Outcome outcome) {
  switch (outcome) {
    case record::Outcome::kCompleted: return JobState::kCompleted;
    case record::Outcome::kFailed: return JobState::kFailed;
    case record::Outcome::kStopped: return JobState::kStopped;
  }
  return JobState::kFailed;
}

}  // namespace

using protocol::Cause;
using protocol::CauseKind;

Job::Job(const DurableJob& durable, absl::Duration stopped_after)
    : durable_(durable),
      stopped_after_(std::min(stopped_after, durable.spec.timeouts.lease / 4)),
      budget_(durable.spec.limits) {}

// --- Forming ----------------------------------------------------------------

void Job::Arrive(Worker* worker, Turn& turn) {
  roster_.SetArrived(worker, true);
  state_ = JobState::kForming;
  join_by_ = std::min(join_by_, turn.now + spec().timeouts.join);
  Remember(absl::StrFormat("%s joins: %d of %d are here", WhoIs(*worker),
                           roster_.arrived().size(), spec().mesh.WorldSize()),
           turn);
  TryForm(turn);
}

void Job::TryForm(Turn& turn) {
  const int arrived = static_cast<int>(roster_.arrived().size());
  const bool complete = arrived == spec().mesh.WorldSize();
  if (complete && roster_.all_arrived_are_here()) Form(turn);
}

void Job::Form(Turn& turn) {
  std::vector<protocol::Member> arrived;
  for (const WorkerName& worker : roster_.arrived()) {
    arrived.push_back(roster_.Find(worker)->member());
  }
  auto members = AssignRanks(std::move(arrived), durable_.members);
  const EpochId id{durable_.epoch.value + 1};
  turn.out.Record(name(), record::EpochBegan{id, members});

  state_ = JobState::kSealed;
  join_by_ = absl::InfiniteFuture();
  epoch_.emplace(id, durable_.members, spec(), turn.now);
  Remember(absl::StrFormat("epoch %d forms with %s", id.value,
                           Count(epoch_->size(), "worker")),
           turn);
  for (int rank = 0; rank < epoch_->size(); ++rank) {
    Worker* worker = AtRank(rank);
    roster_.SetArrived(worker, false);
    Tell(*worker, protocol::EpochFormed{rank, epoch_->members}, turn);
  }
}

void Job::MissJoinDeadline(Turn& turn) {
  if (turn.now < join_by_) return;
  const std::set<WorkerName> arrived = roster_.arrived();
  const std::string message =
      absl::StrFormat("job %s did not form within %s: %s", spec().name,
                      HowLong(spec().timeouts.join),
                      DescribeMissing(spec(), arrived, durable_.members));
  const Cause cause{.kind = CauseKind::kJoinDeadline, .message = message};
  EndJob(record::Outcome::kFailed, cause, turn);
  for (const WorkerName& worker : arrived) {
    turn.out.Refuse(std::exchange(roster_.Find(worker)->session, {}), name(),
                    absl::DeadlineExceededError(message));
  }
  TellTheEnd(cause, turn);
}

// --- Endings ----------------------------------------------------------------

void Job::EndEpoch(Cause cause, Again again, Turn& turn) {
  const EpochId id = epoch_->id;
  std::optional<std::string> no_more = "";
  if (again == Again::kIfBudgetAllows) {
    std::optional<uint64_t> step;
    if (epoch_->started) step = epoch_->board.Furthest().step;
    no_more = budget_.Spend(turn.now, step, cause);
  }
  if (no_more && !no_more->empty()) {
    absl::StrAppend(&cause.message,
                    "; the job does not form again: ", *no_more);
  }
  const auto members = epoch_->members;
  turn.out.Record(name(), record::EpochEnded{id, cause});
  Remember(absl::StrFormat("epoch %d ends: %s", id.value, cause.message), turn);
  epoch_.reset();
  state_ = JobState::kEpochEnded;
  join_by_ = turn.now + spec().timeouts.join;
  const bool final = no_more.has_value();
  if (final) {
    EndJob(cause.kind == CauseKind::kStopped ? record::Outcome::kStopped
                                             : record::Outcome::kFailed,
           cause, turn);
  }
  for (const protocol::Member& member : members) {
    Worker* worker = roster_.Find(member.worker);
    if (worker->state == WorkerState::kReady) {
      roster_.Move(worker, WorkerState::kJoining);
    }
    turn.out.Send(worker->session, name(), id,
                  protocol::EpochEnded{cause, final});
  }
}

void Job::EndJob(record::Outcome outcome, Cause cause, Turn& turn) {
  turn.out.Record(name(), record::JobEnded{outcome, std::move(cause)});
  state_ = StateAfter(outcome);
  epoch_.reset();
  leases_.ClearAll();
  resumes_.ClearAll();
  join_by_ = absl::InfiniteFuture();
  pulse_ = absl::InfiniteFuture();
  Remember(std::string(Over().message()), turn);
}

void Job::Stop(const std::string& reason, Turn& turn) {
  Cause cause{.kind = CauseKind::kStopped,
              .message = absl::StrCat("stopped by an operator",
                                      reason.empty() ? "" : ": ", reason)};
  if (epoch_) return EndEpoch(std::move(cause), Again::kNever, turn);
  EndJob(record::Outcome::kStopped, cause, turn);
  TellTheEnd(cause, turn);
}

void Job::TellTheEnd(const Cause& cause, Turn& turn) {
  for (const auto& [name, worker] : roster_.workers()) {
    Tell(worker, protocol::EpochEnded{cause, /*final=*/true}, turn);
  }
}

absl::Status Job::Over() const {
  const record::JobEnded& ended = *durable_.ended;
  std::string how = "it completed";
  if (ended.outcome == record::Outcome::kFailed) how = "it failed";
  if (ended.outcome == record::Outcome::kStopped) how = "it was stopped";
  if (!ended.cause.message.empty()) {
    absl::StrAppend(&how, ": ", ended.cause.message);
  }
  return absl::FailedPreconditionError(
      absl::StrFormat("job %s is over: %s", spec().name, how));
}

// --- Time -------------------------------------------------------------------

absl::Time Job::NextWake() const {
  absl::Time next =
      std::min({leases_.Next(), resumes_.Next(), join_by_, pulse_});
  if (epoch_) {
    next = std::min({next, epoch_->accusations.Next(), epoch_->connect_by,
                     epoch_->board.NextDue()});
  }
  return next;
}

void Job::Wake(Turn& turn) {
  ExpireLeases(turn);
  ExpireResumes(turn);
  if (epoch_) ExpireAccusations(turn);
  if (epoch_) ExpireConnecting(turn);
  if (epoch_) CallStuck(turn);
  MissJoinDeadline(turn);
  pulse_ = leases_.Next() == absl::InfiniteFuture() ? absl::InfiniteFuture()
                                                    : turn.now + stopped_after_;
}

void Job::NoteLate(absl::Duration late, absl::Time now) {
  if (late <= stopped_after_) return;
  const JobTimeouts& timeouts = spec().timeouts;
  for (const WorkerName& worker : leases_.Keys()) {
    leases_.Set(worker, now + timeouts.lease);
  }
  for (const WorkerName& worker : resumes_.Keys()) {
    resumes_.Set(worker, now + timeouts.resume);
  }
  if (epoch_) {
    epoch_->board.BeginAnew(now);
    epoch_->accusations.BeginAnew(now + timeouts.resume);
    if (epoch_->connect_by != absl::InfiniteFuture()) {
      epoch_->connect_by = now + timeouts.connect;
    }
  }
  if (join_by_ != absl::InfiniteFuture()) join_by_ = now + timeouts.join;
}

void Job::Revive(absl::Time now) {
  if (durable_.ended) {
    state_ = StateAfter(durable_.ended->outcome);
    return;
  }
  if (!durable_.epoch_lives) {
    if (durable_.epoch.value == 0) return;
    state_ = JobState::kEpochEnded;
    join_by_ = now + spec().timeouts.join;
    return;
  }
  state_ =
      durable_.revision.value == 0 ? JobState::kSealed : JobState::kPlanned;
  epoch_.emplace(durable_.epoch, durable_.members, spec(), now);
  for (const protocol::Member& member : durable_.members) {
    Worker& worker = roster_.Begin(member.worker, member.generation, /*life=*/0,
                                   member.process, now);
    roster_.Move(&worker, WorkerState::kSuspect);
    worker.broke = "the coordinator restarted";
    leases_.Set(worker.name, now + spec().timeouts.lease);
  }
  pulse_ = now + stopped_after_;
}

void Job::ExpireLeases(Turn& turn) {
  std::vector<Loss> silent;
  for (const WorkerName& name : leases_.TakeDue(turn.now)) {
    Worker* worker = roster_.Find(name);
    silent.push_back(
        {worker, absl::StrFormat("fell silent: nothing was heard of it for %s",
                                 HowLong(turn.now - worker->heard))});
  }
  Lose(CauseKind::kLeaseExpired, silent, turn);
}

void Job::ExpireResumes(Turn& turn) {
  std::vector<Loss> gone;
  for (const WorkerName& name : resumes_.TakeDue(turn.now)) {
    Worker* worker = roster_.Find(name);
    gone.push_back(
        {worker,
         absl::StrFormat("lost its stream (%s) and did not resume within %s",
                         worker->broke, HowLong(spec().timeouts.resume))});
  }
  Lose(CauseKind::kStreamLost, gone, turn);
}

void Job::ExpireAccusations(Turn& turn) {
  for (Accusation& accusation : epoch_->accusations.TakeDue(turn.now)) {
    const Worker& accuser = *roster_.Find(accusation.accuser);
    const Worker& accused = *roster_.Find(accusation.accused);
    if (accused.state == WorkerState::kSuspect) {
      // It may yet turn out to be dead; its own window decides.
      accusation.answer_by = turn.now + spec().timeouts.resume;
      epoch_->accusations.Add(std::move(accusation));
      continue;
    }
    return EndEpoch(
        {.kind = CauseKind::kLink,
         .workers = {accuser.name, accused.name},
         .message = absl::StrFormat(
             "%s and %s cannot reach each other, though both live: %s says "
             "that the other %s",
             WhoIs(accuser), WhoIs(accused), accuser.name.value,
             accusation.what)},
        Again::kIfBudgetAllows, turn);
  }
}

void Job::ExpireConnecting(Turn& turn) {
  if (turn.now < epoch_->connect_by) return;
  std::vector<WorkerName> names;
  std::vector<std::string> who;
  for (int rank = 0; rank < epoch_->size(); ++rank) {
    if (epoch_->connected.Has(rank)) continue;
    names.push_back(NameAt(rank));
    who.push_back(WhoIs(*AtRank(rank)));
  }
  EndEpoch({.kind = CauseKind::kConnectFailed,
            .workers = std::move(names),
            .message = absl::StrFormat(
                "the data plane was not connected within %s by %s",
                HowLong(spec().timeouts.connect), NameList(who))},
           Again::kIfBudgetAllows, turn);
}

void Job::CallStuck(Turn& turn) {
  std::vector<int> stuck;
  for (const int rank : epoch_->board.TakeDue(turn.now)) {
    if (epoch_->board.IsStuck(rank, turn.now)) stuck.push_back(rank);
  }
  if (stuck.empty()) return;

  const Waits waits = WhoWaits();
  std::vector<Loss> evicted;
  for (const int rank : stuck) {
    if (waits.Any(rank) || epoch_->board.of(rank).called_stuck) continue;
    epoch_->board.CallStuck(rank);
    const std::string sentence = StuckSentence(rank, waits, turn.now);
    Remember(sentence, turn);
    evicted.push_back({AtRank(rank), absl::StrCat("was evicted: ", sentence)});
  }
  if (spec().on_stuck == OnStuck::kEvict) {
    Lose(CauseKind::kLeaseExpired, evicted, turn);
  }
}

// --- Doing ------------------------------------------------------------------

void Job::Tell(const Worker& worker, protocol::ToWorkerBody body, Turn& turn) {
  turn.out.Send(worker.session, name(), epoch_ ? epoch_->id : EpochId{},
                std::move(body));
}

void Job::TellAll(const protocol::ToWorkerBody& body, Turn& turn) {
  for (int rank = 0; rank < epoch_->size(); ++rank) {
    Tell(*AtRank(rank), body, turn);
  }
}

void Job::Remember(std::string text, Turn& turn) {
  history_.Add(turn.now, text);
  turn.out.Note(name(), std::move(text));
}

}  // namespace lockstep::core
