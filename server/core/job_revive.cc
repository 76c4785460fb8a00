// The part of Job about restarts of the coordinator: state without records.
//
// The plan's bytes are not journaled, nor is whether the epoch was started, nor
// are members' messages. Each member resumes with the state it holds and
// registers again. From this the job infers:
//
//   one was started         all were
//   all registered again    the plan is compiled again and must be the same
//   a later revision        was adopted while steps ran: all were started
//
// The same holds for an adopted job (adoption.h), except that another
// coordinator compiled its plan.

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

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
    return;
  }
  if (!durable_.epoch_lives) {
    if (durable_.epoch.value == 0) return;
    AwaitNextEpoch(now);
    if (Wants(durable_.wanted, Command::kStop)) pulse_ = now;
    return;
  }
  state_ =
      durable_.revision.value == 0 ? JobState::kSealed : JobState::kPlanned;
  epoch_.emplace(durable_.epoch, durable_.members, spec(), durable_.first_step,
                 now);
  for (const protocol::Member& member : durable_.members) {
    Worker& worker =
        roster_.Begin(member.worker, member.generation, member.process, now);
    const auto left = durable_.left.find(member.worker);
    if (left != durable_.left.end()) {
      roster_.Move(&worker, WorkerState::kLeft);
      NoteLeft(epoch_->RankOf(member.worker), left->second.steps);
      continue;
    }
    roster_.Move(&worker, WorkerState::kSuspect);
    worker.broke = "the coordinator restarted";
    worker.awaited = true;
    leases_.Set(worker.name, now + spec().timeouts.lease);
  }
  pulse_ = epoch_->left.full() ? now : now + stopped_after_;
  if (durable_.revision.value > 1) {
    state_ = JobState::kRunning;
    epoch_->started = true;
    for (int rank = 0; rank < epoch_->size(); ++rank) {
      epoch_->connected.Add(rank);
    }
  }
}

void Job::BeginAdopted(EventContext& context) {
  Revive(context.now);
  Remember(
      absl::StrFormat("epoch %d is adopted: all its %s offered it, which "
                      "this coordinator did not know",
                      durable_.epoch.value, Count(epoch_->size(), "worker")),
      context);
}

void Job::TurnAway(const absl::Status& why, EventContext& context) {
  for (auto& [worker_name, worker] : roster_.workers()) {
    if (worker.session.value == 0) continue;
    context.out.Refuse(std::exchange(worker.session, {}), name(), why);
  }
}

// The epochs of this job are 1, 2, ..., or begin with the adopted one; earlier
// ones are unknown.
bool Job::IsForeign(const protocol::Hello& hello) const {
  const protocol::ResumeState& held = *hello.resume;
  if (held.members_digest.empty()) return false;  // not reported
  if (held.epoch > durable_.epoch) return true;
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
  KeepWarning(
      absl::StrFormat(
          "another job %s runs, of which this coordinator did not know when "
          "this one began: %s resumes in its epoch %d. Its workers train to "
          "their end without a coordinator; what is asked of job %s does not "
          "reach them",
          spec().name, Who(hello.worker, held.rank, hello.process),
          held.epoch.value, spec().name),
      context);
}

// Another coordinator compiled it, perhaps of another version. Static plans run
// without the coordinator, so it need not have the plan.
bool Job::MayRunForeignPlan() const {
  return durable_.adopted && epoch_->started &&
         spec().sync != SyncMode::kNegotiated;
}

void Job::RunForeignPlan(EventContext& context) {
  epoch_->plan.reset();
  epoch_->handles.reset();
  epoch_->digest.clear();
  epoch_->plan_is_foreign = true;
  Remember(
      absl::StrFormat("the plan %s of the adopted epoch cannot be compiled "
                      "here: steps run on without its description",
                      durable_.plan_digest),
      context);
}

bool Job::EndWasLost() const {
  if (over()) return false;
  if (epoch_) return epoch_->left.full();
  return durable_.epoch.value != 0 && Wants(durable_.wanted, Command::kStop);
}

// The last rank had left, but the end of the epoch or job was not recorded.
void Job::EndAfterRestart(EventContext& context) {
  if (!epoch_) return Stop(durable_.wanted.reason, context);
  // All ranks left by the same verdict, so each departure has the command.
  EndAfterLastStep(durable_.left.begin()->second.command, context);
}

bool Job::HasStarted(const protocol::Hello& hello) const {
  return hello.resume && hello.resume->started &&
         hello.resume->epoch == epoch_->id;
}

// Start is sent to all ranks at once, so one that received it proves it for
// all.
void Job::RecognizeStart(const protocol::Hello& hello, EventContext& context) {
  if (HasStarted(hello) && !epoch_->started) Start(context);
}

// True if the message is about a plan that is not compiled yet; buffers it.
bool Job::IsTooEarly(int rank, const protocol::ToCoordinatorBody& body,
                     EventContext& context) {
  const bool is_about_plan =
      std::holds_alternative<protocol::PlanAck>(body) ||
      std::holds_alternative<protocol::PublishHandles>(body) ||
      std::holds_alternative<protocol::Connected>(body);
  const bool is_about_passes =
      std::holds_alternative<protocol::Held>(body) ||
      std::holds_alternative<protocol::Announce>(body) ||
      std::holds_alternative<protocol::Submitted>(body);
  const bool needs_plan =
      is_about_passes || (is_about_plan && !epoch_->started);
  if (!needs_plan || epoch_->plan != nullptr) return false;
  if (durable_.revision.value == 0) {
    EndByMismatch(rank, "speaks of a plan before there is one", context);
  } else if (!epoch_->early[rank].Add(body)) {
    EndByMismatch(rank,
                  "says more than a step can hold, before the plan is compiled "
                  "again",
                  context);
  }
  return true;
}

void Job::ReceiveEarly(EventContext& context) {
  const auto early = std::exchange(epoch_->early, {});
  for (const auto& [rank, words] : early) {
    for (const protocol::ToCoordinatorBody& body : words.all()) {
      if (epoch_) Deliver(rank, body, context);
    }
  }
}

}  // namespace lockstep::core
