// Coordinator: what operators ask for, and jobs that are over.

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/core/admission.h"
#include "server/core/commands.h"
#include "server/core/coordinator.h"
#include "server/core/coordinator_status.h"
#include "server/core/effect_sink.h"
#include "server/core/status_text.h"
#include "server/core/token.h"

namespace lockstep::core {
namespace {

// " by alice"; nothing if nobody is named.
std::string By(const std::string& by) {
  return by.empty() ? "" : absl::StrCat(" by ", by);
}

}  // namespace

void Coordinator::On(const CreateJob& event, EventContext& context) {
  context.out.Answer(event.request,
                     shutting_down_
                         ? GoingDown()
                         : Create(event.spec, event.token, event.by, context));
}

void Coordinator::On(const CommandJob& event, EventContext& context) {
  absl::StatusOr<Job*> job = Authorized(event.job, event.token);
  absl::Status done = job.status();
  if (job.ok()) {
    done = (*job)->over() ? (*job)->Over()
                          : (*job)->ApplyCommand(event.command, event.reason,
                                                 event.by, context);
  }
  context.out.Answer(event.request, std::move(done));
}

void Coordinator::On(const StopJob& event, EventContext& context) {
  absl::StatusOr<Job*> job = Authorized(event.job, event.token);
  if (job.ok() && (*job)->over()) job = (*job)->Over();
  if (job.ok()) {
    if (!event.by.empty()) {
      (*job)->Remember(
          ByOperator("stop at once is asked for", event.reason, event.by),
          context);
    }
    (*job)->Stop(event.reason, context);
  }
  context.out.Answer(event.request, job.status());
}

void Coordinator::On(const DeleteJob& event, EventContext& context) {
  context.out.Answer(event.request, Delete(event, context));
}

void Coordinator::On(const ReportEvidence& event, EventContext& context) {
  const absl::StatusOr<Job*> job = Authorized(event.job, event.token);
  if (!job.ok()) return context.out.Answer(event.request, job.status());
  (*job)->OnEvidence(event.evidence, /*reporter=*/{}, context);
  const absl::Status refusal = refusals_.Of(event.job, event.evidence.process);
  if (refusal.ok()) return context.out.Answer(event.request, refusal);
  context.out.Answer(
      event.request,
      absl::FailedPreconditionError(absl::StrFormat(
          "%s was refused: %s: %s", event.evidence.subject.value,
          absl::StatusCodeToString(refusal.code()), refusal.message())));
}

absl::Status Coordinator::Create(const JobSpec& spec, const std::string& token,
                                 const std::string& by, EventContext& context) {
  if (absl::Status valid = Validate(spec); !valid.ok()) return valid;
  const JobName name{spec.name};
  const Job* job = Reach(name);
  if (job != nullptr && !job->over()) return CreateAgain(*job, spec, token);
  if (job != nullptr) {
    if (absl::Status may = Authorize(name, token); !may.ok()) return may;
  }
  const auto living = static_cast<int64_t>(live_.size());
  if (absl::Status may = limits_.AdmitJob(spec, living); !may.ok()) return may;
  if (job != nullptr) Archive(name, by, context);
  if (absl::Status free = NoOffersHold(name, context.now); !free.ok())
    return free;
  context.out.Record(name, record::JobCreated{spec, HashOfToken(token)});
  jobs_.try_emplace(name, durable_.jobs.at(name), options_.stopped_after);
  DelayFirstEpochOf(Reach(name));
  Reach(name)->Remember(absl::StrCat("job ", spec.name, " was created for ",
                                     ToString(spec.mesh), By(by)),
                        context);
  return absl::OkStatus();
}

void Coordinator::DelayFirstEpochOf(Job* job) const {
  job->DelayFirstEpoch(
      first_epochs_from_,
      "for running jobs to offer themselves after the coordinator's start");
}

// Creating an equal job again is allowed, since launchers do so.
absl::Status Coordinator::CreateAgain(const Job& job, const JobSpec& spec,
                                      const std::string& token) const {
  if (absl::Status may = Authorize({spec.name}, token); !may.ok()) return may;
  const absl::Status same = SameSpec(job.spec(), spec, {"the request"});
  return same.ok() ? same : absl::AlreadyExistsError(same.message());
}

// --- Jobs that are over -----------------------------------------------------

absl::Status Coordinator::Delete(const DeleteJob& event,
                                 EventContext& context) {
  const absl::StatusOr<Job*> job = Authorized(event.job, event.token);
  if (!job.ok()) return job.status();
  if (!(*job)->over()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "job %s is %s: only a job that is over can be deleted; stop it first",
        event.job.value, Name((*job)->state())));
  }
  if (!event.keep) {
    Forget(event.job, event.by, context);
  } else if (durable_.jobs.at(event.job).archived_as.value.empty()) {
    Archive(event.job, event.by, context);
  }
  return absl::OkStatus();
}

// "digits" becomes "digits#1", or the highest existing number plus one.
void Coordinator::Archive(const JobName& name, const std::string& by,
                          EventContext& context) {
  const std::string prefix =
      absl::StrCat(durable_.jobs.at(name).spec.name, "#");
  uint64_t highest = 0;
  for (auto other = jobs_.lower_bound({prefix});
       other != jobs_.end() && absl::StartsWith(other->first.value, prefix);
       ++other) {
    uint64_t number = 0;
    if (absl::SimpleAtoi(other->first.value.substr(prefix.size()), &number)) {
      highest = std::max(highest, number);
    }
  }
  const JobName as{absl::StrCat(prefix, highest + 1)};
  auto node = jobs_.extract(name);
  node.mapped().UnbindAll(context);
  context.out.Record(name, record::JobArchived{as});
  node.key() = as;
  jobs_.insert(std::move(node));
  touched_.insert(as);
  Reach(as)->Remember(absl::StrFormat("job %s is over and kept as %s%s",
                                      name.value, as.value, By(by)),
                      context);
}

void Coordinator::Forget(const JobName& name, const std::string& by,
                         EventContext& context) {
  auto node = jobs_.extract(name);
  node.mapped().UnbindAll(context);
  context.out.Record(name, record::JobDeleted{});
  context.out.Note(
      name, absl::StrFormat("job %s is forgotten%s", name.value, By(by)));
}

void Coordinator::ForgetOldest(EventContext& context) {
  while (durable_.over.size() > kJobsOverMax) {
    Forget(JobName(durable_.over.begin()->second), /*by=*/"", context);
  }
}

absl::StatusOr<Job*> Coordinator::Authorized(const JobName& name,
                                             const std::string& token) {
  if (shutting_down_) return GoingDown();
  if (absl::Status may = Authorize(name, token); !may.ok()) return may;
  return Reach(name);
}

}  // namespace lockstep::core
