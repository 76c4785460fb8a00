// The part of Job about its deadlines.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/core/job.h"
#include "server/core/missing_workers.h"
#include "server/core/status_text.h"

namespace lockstep::core {

using protocol::CauseKind;

namespace {

// The least time between two checks of accusations that are still undecided.
constexpr absl::Duration kLookAgain = absl::Milliseconds(100);

}  // namespace

absl::Time Job::NextWake() const {
  absl::Time next =
      std::min({leases_.Next(), resumes_.Next(), join_by_, pulse_, form_at_});
  if (epoch_) {
    next = std::min({next, epoch_->accusations.Next(), epoch_->connect_by,
                     epoch_->progress.NextDue(), epoch_->lags.NextDue()});
  }
  return next;
}

void Job::Wake(EventContext& context) {
  if (EndWasLost()) EndAfterRestart(context);
  ExpireLeases(context);
  ExpireResumes(context);
  if (epoch_) ExpireAccusations(context);
  if (epoch_) ExpireConnecting(context);
  if (epoch_) NameLate(context);
  if (epoch_) CallStuck(context);
  if (form_at_ <= context.now) {
    form_at_ = absl::InfiniteFuture();
    TryForm(context);
  }
  MissJoinDeadline(context);
  pulse_ = leases_.Next() == absl::InfiniteFuture()
               ? absl::InfiniteFuture()
               : context.now + stopped_after_;
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
    epoch_->progress.BeginAnew(now);
    epoch_->lags.BeginAnew(now);
    epoch_->accusations.BeginAnew(now + timeouts.resume);
    if (epoch_->connect_by != absl::InfiniteFuture()) {
      epoch_->connect_by = now + timeouts.connect;
    }
  }
  if (join_by_ != absl::InfiniteFuture()) join_by_ = now + timeouts.join;
  // Offers were not received in this time either.
  if (form_at_ != absl::InfiniteFuture()) form_at_ = first_epoch_from_ += late;
}

void Job::ExpireLeases(EventContext& context) {
  std::vector<Loss> silent;
  for (const WorkerName& name : leases_.TakeDue(context.now)) {
    Worker* worker = roster_.Find(name);
    silent.push_back(
        {worker, absl::StrFormat("fell silent: nothing was heard of it for %s",
                                 HowLong(context.now - worker->heard))});
  }
  Lose(CauseKind::kLeaseExpired, silent, context);
}

void Job::ExpireResumes(EventContext& context) {
  std::vector<Loss> gone;
  for (const WorkerName& name : resumes_.TakeDue(context.now)) {
    Worker* worker = roster_.Find(name);
    gone.push_back(
        {worker,
         absl::StrFormat("lost its stream (%s) and did not resume within %s",
                         worker->broke, HowLong(spec().timeouts.resume))});
  }
  Lose(CauseKind::kStreamLost, gone, context);
}

void Job::ExpireAccusations(EventContext& context) {
  if (epoch_->accusations.Next() > context.now) return;
  if (!resumes_.Keys().empty() || AwaitsTheAccused()) {
    // A worker may still turn out to be dead or stopped; its resume window or
    // lease decides. A death also makes survivors cut their links, so that they
    // accuse one another.
    epoch_->accusations.BeginAnew(context.now +
                                  std::max(spec().timeouts.resume, kLookAgain));
    return;
  }
  const Accusation& accusation = epoch_->accusations.Weightiest();
  const Worker& reporter = *roster_.Find(accusation.reporter);
  const Worker& accused = *roster_.Find(accusation.accused);
  EndEpoch({.kind = CauseKind::kLink,
            .workers = {reporter.name, accused.name},
            .message = absl::StrFormat(
                "%s and %s cannot reach each other, though both live: %s says "
                "that the other %s",
                WhoIs(reporter), WhoIs(accused), reporter.name.value,
                accusation.what)},
           Again::kIfBudgetAllows, context);
}

// A worker sends four heartbeats per lease.
bool Job::AwaitsTheAccused() const {
  const std::vector<Accusation>& open = epoch_->accusations.open();
  return std::any_of(open.begin(), open.end(), [this](const Accusation& a) {
    return a.silent && roster_.Find(a.accused)->heard <= a.made;
  });
}

void Job::ExpireConnecting(EventContext& context) {
  if (context.now < epoch_->connect_by) return;
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
           Again::kIfBudgetAllows, context);
}

void Job::NameLate(EventContext& context) {
  if (!epoch_->lags.TakeDue(context.now)) return;
  const Waits waits = WhoWaits();
  int named = 0;
  int others = 0;
  for (int rank = 0; rank < epoch_->size(); ++rank) {
    if (!IsLate(rank, waits, context.now)) continue;
    if (named == kBlamed) {
      ++others;
    } else if (epoch_->lags.Name(rank, context.now)) {
      Remember(BlameSentence(rank, waits, context.now), context);
      ++named;
    }
  }
  if (others > 0) Remember(AndMore(others), context);
}

void Job::CallStuck(EventContext& context) {
  std::vector<int> stuck;
  for (const int rank : epoch_->progress.TakeDue(context.now)) {
    if (epoch_->progress.IsStuck(rank, context.now)) stuck.push_back(rank);
  }
  if (stuck.empty() || AllWaitForPlan()) return;
  // A rank that a broken link blocks is not at fault.
  if (!epoch_->accusations.open().empty()) return;

  const Waits waits = WhoWaits();
  std::vector<Loss> evicted;
  for (const int rank : stuck) {
    const bool cannot_end =
        epoch_->first_leaver >= 0 && !epoch_->progress.of(rank).withdrawn &&
        epoch_->progress.of(rank).position == LastWordOfLeaver();
    if (cannot_end) return EndByLeaver(rank, context);
    if (waits.Any(rank) || epoch_->progress.of(rank).called_stuck) continue;
    epoch_->progress.CallStuck(rank);
    const std::string sentence = BlameSentence(rank, waits, context.now);
    Remember(sentence, context);
    evicted.push_back({AtRank(rank), absl::StrCat("was evicted: ", sentence)});
  }
  if (spec().on_stuck == OnStuck::kEvict) {
    Lose(CauseKind::kLeaseExpired, evicted, context);
  }
}

void Job::MissJoinDeadline(EventContext& context) {
  if (context.now < join_by_) return;
  const std::set<WorkerName> arrived = roster_.arrived();
  std::string message =
      absl::StrFormat("job %s did not form within %s: %s", spec().name,
                      HowLong(spec().timeouts.join),
                      DescribeMissing(spec(), arrived, durable_.members));
  if (!durable_.cause.message.empty()) {
    absl::StrAppend(&message, "; epoch ", durable_.epoch.value,
                    " had ended: ", durable_.cause.message);
  }
  const protocol::Cause cause{.kind = CauseKind::kJoinDeadline,
                              .message = message};
  EndJob(record::JobOutcome::kFailed, cause, context);
  for (const WorkerName& worker : arrived) {
    context.out.Refuse(std::exchange(roster_.Find(worker)->session, {}), name(),
                       absl::DeadlineExceededError(message));
  }
  TellTheEnd(cause, context);
}

}  // namespace lockstep::core
