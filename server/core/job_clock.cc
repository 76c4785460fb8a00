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

absl::Time Job::NextWake() const {
  absl::Time next =
      std::min({leases_.Next(), resumes_.Next(), join_by_, pulse_, form_at_,
                shrink_at_, grow_at_, reports_by_, returns_by_});
  if (epoch_) next = std::min(next, epoch_->NextWake());
  return next;
}

void Job::Wake(EventContext& context) {
  if (EndWasLost()) EndAfterRestart(context);
  ExpireLeases(context);
  ExpireResumes(context);
  if (epoch_) {
    EndIf(epoch_->Wake(/*may_resume=*/!resumes_.Keys().empty(), context),
          context);
  }
  if (form_at_ <= context.now) {
    form_at_ = absl::InfiniteFuture();
    TryForm(context);
  }
  if (shrink_at_ <= context.now) TryForm(context);
  if (grow_at_ <= context.now) ReviseGrowth(context);
  if (reports_by_ <= context.now) ForgetTheAbsent(context);
  if (returns_by_ <= context.now) EvictTheHung(context);
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
  if (epoch_) epoch_->BeginAnew(now);
  if (join_by_ != absl::InfiniteFuture()) join_by_ = now + timeouts.join;
  if (reports_by_ != absl::InfiniteFuture()) reports_by_ = now + timeouts.lease;
  if (returns_by_ != absl::InfiniteFuture()) {
    returns_by_ = now + timeouts.progress;
  }
  ended_at_ += late;
  if (shrink_at_ != absl::InfiniteFuture()) shrink_at_ += late;
  // Offers were not received in this time either.
  if (form_at_ != absl::InfiniteFuture()) form_at_ = first_epoch_from_ += late;
}

// A member that takes part in steps lives, though its control link may be cut:
// no rank passes the verdict of a step before all have entered it. `lived`: as
// far as that proves.
bool Job::TrainsUnheard(Worker* worker, absl::Time lived,
                        EventContext& context) {
  if (!IsMember(*worker) || lived + spec().timeouts.lease <= context.now) {
    return false;
  }
  if (!std::exchange(worker->trains_unheard, true)) {
    Remember(absl::StrFormat("%s is not heard, but takes part in steps: it is "
                             "not lost",
                             WhoIs(*worker)),
             context);
  }
  return true;
}

// Workers send four heartbeats a lease. If nothing has been heard of any for
// half of one, then something that they share stands still, such as their
// machine, and may go on: all get a second lease.
absl::Time Job::SecondLeaseOfAll(absl::Time now) const {
  const std::vector<WorkerName> names = leases_.Keys();
  absl::Time newest = absl::InfinitePast();
  for (const WorkerName& name : names) {
    newest = std::max(newest, roster_.Find(name)->heard);
  }
  const absl::Duration lease = spec().timeouts.lease;
  const bool all_silent = names.size() > 1 && newest + lease / 2 <= now;
  return all_silent ? newest + 2 * lease : absl::InfinitePast();
}

void Job::ExpireLeases(EventContext& context) {
  if (context.now < leases_.Next()) return;
  const absl::Time second = SecondLeaseOfAll(context.now);
  std::vector<Loss> silent;
  for (const WorkerName& name : leases_.TakeDue(context.now)) {
    Worker* worker = roster_.Find(name);
    if (context.now < second) {
      leases_.Set(name, second);
      continue;
    }
    const absl::Time lived = epoch_ ? epoch_->advanced() : absl::InfinitePast();
    if (TrainsUnheard(worker, lived, context)) {
      leases_.Set(name, lived + spec().timeouts.lease);
      continue;
    }
    silent.push_back(
        {worker, absl::StrFormat("fell silent: nothing was heard of it for %s",
                                 HowLong(context.now - worker->heard))});
  }
  Lose(CauseKind::kLeaseExpired, silent, context);
}

void Job::ExpireResumes(EventContext& context) {
  std::vector<Loss> gone;
  const absl::Duration window = spec().timeouts.resume;
  for (const WorkerName& name : resumes_.TakeDue(context.now)) {
    Worker* worker = roster_.Find(name);
    absl::Time lived = epoch_ ? epoch_->advanced() : absl::InfinitePast();
    // A step that is reported shortly after the stream broke may have passed
    // before the worker died.
    if (lived < worker->broke_at + window / 2) lived = absl::InfinitePast();
    if (TrainsUnheard(worker, lived, context)) {
      resumes_.Set(name, lived + spec().timeouts.lease);
      continue;
    }
    const absl::Duration waited =
        std::max(window, context.now - worker->broke_at);
    gone.push_back(
        {worker,
         absl::StrFormat("lost its stream (%s) and did not resume within %s",
                         worker->broke, HowLong(waited))});
  }
  Lose(CauseKind::kStreamLost, gone, context);
}

void Job::MissJoinDeadline(EventContext& context) {
  if (context.now < join_by_ || FormAtDeadline(context)) return;
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
