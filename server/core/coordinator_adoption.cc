// Coordinator: running jobs that it does not know (adoption.h).

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/core/coordinator.h"
#include "server/core/coordinator_status.h"
#include "server/core/effect_sink.h"
#include "server/core/token.h"

namespace lockstep::core {
namespace {

// A worker of an unknown job that has finished may leave after this time, even
// if not all ranks have offered: some may have left before this coordinator
// started. Shorter than the worker waits for an answer
// (session::MachineOptions::leave_timeout).
constexpr absl::Duration kAdoptionGrace = absl::Seconds(1);

}  // namespace

bool Coordinator::IsOfUnknownJob(const JobName& name,
                                 const protocol::Hello& hello) const {
  if (!IsInEpoch(hello)) return false;
  const auto found = jobs_.find(name);
  if (found == jobs_.end() || !found->second.has_begun()) return true;
  return found->second.over() && found->second.IsForeign(hello);
}

bool Coordinator::IsOfJobBesideOurs(const JobName& name,
                                    const protocol::Hello& hello) const {
  if (!IsInEpoch(hello)) return false;
  const auto found = jobs_.find(name);
  return found != jobs_.end() && found->second.has_begun() &&
         !found->second.over() && found->second.IsForeign(hello);
}

void Coordinator::LetTrainOn(SessionId session, const JobName& name,
                             const protocol::Hello& hello,
                             EventContext& context) {
  Job* job = Reach(name);
  if (!hello.resume->ended) job->NoteForeign(hello, context);
  if (hello.resume->leaving)
    return ReleaseLeaver(session, name, hello, context);
  if (hello.resume->ended) {
    return context.out.Close(
        session, UnknownEpoch(name, hello.resume->epoch, hello.worker));
  }
  context.out.Close(
      session,
      absl::UnavailableError(absl::StrFormat(
          "job %s of this coordinator is another than that of %s, epoch %d of "
          "which was not offered before the new one began",
          name.value, hello.worker.value, hello.resume->epoch.value)));
}

// Lets the worker leave: no rank here waits for it.
void Coordinator::ReleaseLeaver(SessionId session, const JobName& name,
                                const protocol::Hello& hello,
                                EventContext& context) {
  context.out.Send(session, name, hello.resume->epoch, protocol::Left{});
  context.out.Close(session, absl::OkStatus());
}

// A survivor of an epoch that is over. Beside new workers, which begin with
// other state, it would train another model.
bool Coordinator::HoldsUnknownState(const JobName& name,
                                    const protocol::Hello& hello) const {
  const auto found = jobs_.find(name);
  return hello.held && (found == jobs_.end() || !found->second.has_begun());
}

// Final, unless the others of an elastic job train on without it, and may still
// offer that job.
absl::Status Coordinator::RefuseUnknownState(SessionId session,
                                             const JobName& name,
                                             const protocol::Hello& hello,
                                             EventContext& context) {
  const absl::Status unknown =
      UnknownState(name, hello.held->steps, hello.held->epoch, hello.worker);
  const bool may_be_offered =
      context.now < first_epochs_from_ || !NoOffersHold(name, context.now).ok();
  if (!may_be_offered) return unknown;
  context.out.Close(session, absl::UnavailableError(unknown.message()));
  return absl::OkStatus();
}

// Such a worker has no progress to lose: it is admitted as a new one.
bool Coordinator::WaitsElsewhere(const JobName& name,
                                 const protocol::Hello& hello) const {
  const bool waits = hello.generation.value != 0 && hello.resume &&
                     hello.resume->epoch.value == 0 && !hello.resume->leaving;
  const auto found = durable_.jobs.find(name);
  return waits && (found == durable_.jobs.end() ||
                   found->second.name_holders.count(hello.worker) == 0);
}

// On any error the worker keeps training: only its stream ends.
void Coordinator::TakeOffer(SessionId session, const JobName& name,
                            const protocol::Hello& hello,
                            EventContext& context) {
  if (hello.resume->ended) {  // there is nothing to adopt
    if (hello.resume->leaving)
      return ReleaseLeaver(session, name, hello, context);
    return context.out.Close(
        session, UnknownEpoch(name, hello.resume->epoch, hello.worker));
  }
  if (const absl::Status may = MayOffer(name, hello, context.now); !may.ok()) {
    return context.out.Close(session, may);
  }
  auto taken = adoptions_.Take(context.now, name, hello);
  if (!taken.ok()) return context.out.Close(session, taken.status());
  if (taken->adopted) {
    Adopt(name, *std::move(taken->adopted), context);
    return Reach(name)->OnHello(session, hello, context);
  }
  if (taken->leaving_for >= kAdoptionGrace) {
    adoptions_.Drop(name, hello);
    return ReleaseLeaver(session, name, hello, context);
  }
  const std::string offers = adoptions_.Describe(name, context.now);
  if (Job* created = Reach(name); created != nullptr && !created->over()) {
    created->DelayFirstEpoch(
        context.now + hello.spec->timeouts.lease,
        absl::StrCat("for a running job of this name: ", offers));
  }
  if (taken->is_new) {
    context.out.Note(name, absl::StrFormat("%s resumes a job that is not known "
                                           "here: %s",
                                           Who(hello.worker, hello.resume->rank,
                                               hello.process),
                                           offers));
  }
  context.out.Close(session, absl::UnavailableError(absl::StrFormat(
                                 "job %s is not known to this coordinator: %s",
                                 name.value, offers)));
}

absl::Status Coordinator::MayOffer(const JobName& name,
                                   const protocol::Hello& hello,
                                   absl::Time now) {
  if (!hello.spec || hello.spec->name != name.value) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s offers job %s without its spec", hello.worker.value, name.value));
  }
  const auto found = jobs_.find(name);
  if (absl::Status valid = Validate(*hello.spec); !valid.ok()) return valid;
  if (found != jobs_.end()) {
    absl::Status may = Authorize(name, hello.token);
    if (!may.ok()) return may;
  }
  if (adoptions_.Has(name, hello)) return absl::OkStatus();
  const size_t others = live_.size() - live_.count(name);
  return limits_.AdmitJob(
      *hello.spec, static_cast<int64_t>(others + adoptions_.CountEpochs(now)));
}

void Coordinator::Adopt(const JobName& name, record::JobAdopted adopted,
                        EventContext& context) {
  const auto found = jobs_.find(name);
  if (found != jobs_.end() && found->second.over()) {
    Archive(name, /*by=*/"", context);
  } else if (found != jobs_.end()) {
    found->second.TurnAway(
        absl::FailedPreconditionError(absl::StrFormat(
            "job %s runs already: the %s of its epoch %d offered it "
            "for adoption",
            name.value, Count(adopted.members.size(), "worker"),
            adopted.epoch.value)),
        context);
    jobs_.erase(found);
  }
  context.out.Record(name, std::move(adopted));
  const auto [job, is_new] =
      jobs_.try_emplace(name, durable_.jobs.at(name), options_.stopped_after);
  job->second.BeginAdopted(context);
}

absl::Status Coordinator::NoOffersHold(const JobName& name,
                                       absl::Time now) const {
  const std::string offers = adoptions_.Describe(name, now);
  if (offers.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "job %s runs, though this coordinator does not know it yet: %s; take "
      "another name, or wait until it is over",
      name.value, offers));
}

}  // namespace lockstep::core
