// The part of Job about forming epochs: who has arrived, and when those who are
// here suffice.
//
//   all ranks can be filled                     at once
//   after a loss, in an elastic job, some       elastic.wait after the end of
//   that hold the state have arrived            the epoch, once everybody that
//                                               lives has joined again
//   timeouts.join has passed                    at once, if they suffice
//
// formation.h decides who becomes a member, with which rank.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/core/commands.h"
#include "server/core/formation.h"
#include "server/core/job.h"
#include "server/core/status_text.h"
#include "spec/elastic.h"

namespace lockstep::core {

void Job::Arrive(Worker* worker, EventContext& context) {
  roster_.SetArrived(worker, true);
  if (epoch_) return BeginWaiting(*worker, context);
  state_ = JobState::kForming;
  join_by_ = std::min(join_by_, std::max(context.now, first_epoch_from_) +
                                    spec().timeouts.join);
  Remember(absl::StrFormat("%s joins: %d of %d are here", WhoIs(*worker),
                           roster_.arrived().size(), spec().mesh.WorldSize()),
           context);
  TryForm(context);
}

std::vector<ArrivedWorker> Job::Arrived(bool also_suspects) const {
  std::vector<ArrivedWorker> arrived;
  for (const WorkerName& worker_name : roster_.arrived()) {
    const Worker& worker = *roster_.Find(worker_name);
    if (worker.session.value == 0 && !also_suspects) continue;
    arrived.push_back({worker.member(), HeldCell(worker)});
  }
  return arrived;
}

void Job::TryForm(EventContext& context) {
  shrink_at_ = absl::InfiniteFuture();
  if (epoch_ || over() || !roster_.all_arrived_are_here()) return;
  if (recovery_ && !recovery_->settled()) return;
  const int world = spec().mesh.WorldSize();
  const bool may_be_complete =
      static_cast<int>(roster_.arrived().size()) >= world;
  const bool may_be_smaller = spec::IsElastic(spec()) && recovery_;
  if (!may_be_complete && !may_be_smaller) return;
  // Those who come again take their ranks, before others do.
  const bool may_displace = !may_be_complete || spec().limits.spares > 0;
  if (may_displace && recovery_ && !recovery_->all_returned()) return;
  std::vector<protocol::Member> members =
      FormEpoch(spec(), Arrived(), durable_.members);
  if (static_cast<int>(members.size()) < world) {
    return TryFormSmaller(std::move(members), context);
  }
  if (!FirstEpochIsDelayed(context.now)) {
    return Form(std::move(members), context);
  }
  if (form_at_ == absl::InfiniteFuture()) {
    Remember(absl::StrCat("the job ", WhyDelayed(context.now)), context);
  }
  form_at_ = first_epoch_from_;
}

// Without survivors nothing is lost by waiting until the join deadline.
void Job::TryFormSmaller(std::vector<protocol::Member> members,
                         EventContext& context) {
  const auto size = static_cast<int>(members.size());
  const bool has_survivors =
      recovery_ &&
      std::any_of(members.begin(), members.end(),
                  [this](const protocol::Member& member) {
                    return HeldCell(*roster_.Find(member.worker)).has_value();
                  });
  if (size < spec::WorkersMin(spec()) || !has_survivors) return;
  const bool shrinks = size < static_cast<int>(durable_.members.size());
  const absl::Time from = ended_at_ + spec().elastic.wait;
  if (shrinks && context.now < from) {
    shrink_at_ = from;
    return;
  }
  Form(std::move(members), context);
}

// The join deadline has passed: whoever has not come is not waited for.
bool Job::FormAtDeadline(EventContext& context) {
  const bool needs_all = !spec::IsElastic(spec()) && spec().limits.spares == 0;
  if (needs_all || FirstEpochIsDelayed(context.now)) return false;
  if (recovery_) {
    for (const WorkerName& worker : recovery_->Awaited()) {
      recovery_->Forget(worker);
    }
    Settle(context);
    if (epoch_) return true;
  }
  std::vector<protocol::Member> members =
      FormEpoch(spec(), Arrived(), durable_.members);
  if (static_cast<int>(members.size()) < spec::WorkersMin(spec())) return false;
  Form(std::move(members), context);
  return true;
}

bool Job::FirstEpochIsDelayed(absl::Time now) const {
  return !has_begun() && now < first_epoch_from_;
}

std::string Job::WhyDelayed(absl::Time now) const {
  return absl::StrCat("waits ", HowLong(first_epoch_from_ - now), " ",
                      why_delayed_);
}

void Job::DelayFirstEpoch(absl::Time when, const std::string& why) {
  if (when <= first_epoch_from_) return;
  first_epoch_from_ = when;
  why_delayed_ = why;
  if (form_at_ != absl::InfiniteFuture()) form_at_ = when;
  if (join_by_ != absl::InfiniteFuture()) {
    join_by_ = std::max(join_by_, when + spec().timeouts.join);
  }
}

record::EpochBegan Job::BeginningOf(
    EpochId id, const std::vector<protocol::Member>& members) const {
  record::EpochBegan began{.epoch = id, .members = members};
  const auto world = static_cast<int>(members.size());
  for (uint32_t rank = 0; rank < members.size(); ++rank) {
    const Worker& worker = *roster_.Find(members[rank].worker);
    if (!HeldCell(worker)) continue;
    began.holders.push_back(rank);
    // One number for all: one that differs from the new world, if any does.
    if (began.holders_world == 0 || worker.held->world != world) {
      began.holders_world = worker.held->world;
    }
  }
  began.first_step =
      began.holders.empty() ? std::max(step_, durable_.steps) : durable_.steps;
  return began;
}

void Job::Form(std::vector<protocol::Member> members, EventContext& context) {
  const EpochId id{std::max(durable_.epoch, durable_.epoch_floor).value + 1};
  if (Wants(durable_.wanted, Command::kDrain)) {
    Want(Nothing(durable_.wanted), context);  // the drain is complete
  }
  proofs_.clear();
  drained_launches_.clear();
  recovery_.reset();
  reports_by_ = absl::InfiniteFuture();
  returns_by_ = absl::InfiniteFuture();
  record::EpochBegan began = BeginningOf(id, members);
  step_ = began.first_step;
  // Those who wait hold the same state as these, until these pass a step.
  for (const WorkerName& worker_name : roster_.arrived()) {
    Worker* worker = roster_.Find(worker_name);
    if (began.holders.empty() || !HeldCell(*worker)) worker->held.reset();
  }
  context.out.Record(name(), std::move(began));

  join_by_ = absl::InfiniteFuture();
  form_at_ = absl::InfiniteFuture();
  shrink_at_ = absl::InfiniteFuture();
  epoch_.emplace(durable_, roster_, log_, checkpoints_, context.now);
  const std::set<WorkerName> arrived = roster_.arrived();
  for (const WorkerName& worker_name : arrived) {
    Worker* worker = roster_.Find(worker_name);
    if (!IsMember(*worker)) continue;
    worker->held.reset();
    roster_.SetArrived(worker, false);
  }
  Remember(
      absl::StrFormat("epoch %d forms with %s%s", id.value,
                      Count(durable_.members.size(), "worker"), WhoWaits()),
      context);
  epoch_->Announce(context);
}

}  // namespace lockstep::core
