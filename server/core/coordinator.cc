#include "server/core/coordinator.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/core/admission.h"
#include "server/core/commands.h"
#include "server/core/effect_sink.h"
#include "server/core/status_text.h"
#include "server/core/token.h"

namespace lockstep::core {
namespace {

absl::Status UnknownJob(const JobName& job) {
  return absl::NotFoundError(
      absl::StrFormat("there is no job %s here", job.value));
}

// A worker of an unknown job that has finished may leave after this time, even
// if not all ranks have offered: some may have left before this coordinator
// started. Shorter than the worker waits for an answer
// (session::MachineOptions::leave_timeout).
constexpr absl::Duration kAdoptionGrace = absl::Seconds(1);

// The worker was welcomed and is part of an epoch.
bool IsInEpoch(const protocol::Hello& hello) {
  return hello.generation.value != 0 && hello.resume &&
         hello.resume->epoch.value != 0;
}

// " by alice"; nothing if nobody is named.
std::string By(const std::string& by) {
  return by.empty() ? "" : absl::StrCat(" by ", by);
}

absl::Status GoingDown() {
  return absl::UnavailableError("coordinator is shutting down");
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options)
    : options_(options),
      secrets_(options.secret_seed),
      limits_(options.limits) {}
Coordinator::~Coordinator() = default;

void Coordinator::Restore(DurableState state) {
  durable_ = std::move(state);
  for (const auto& [name, job] : durable_.jobs) {
    jobs_.try_emplace(name, job, options_.stopped_after);
  }
}

absl::Status Coordinator::Replay(const record::Record& record) {
  if (absl::Status applied = Apply(record, &durable_); !applied.ok()) {
    return applied;
  }
  if (std::holds_alternative<record::JobDeleted>(record.body)) {
    jobs_.erase(record.job);
  } else if (const auto* archived =
                 std::get_if<record::JobArchived>(&record.body)) {
    auto node = jobs_.extract(record.job);
    node.key() = archived->as;
    jobs_.insert(std::move(node));
  } else {
    const auto& [name, job] = *durable_.jobs.find(record.job);
    jobs_.try_emplace(name, job, options_.stopped_after);
  }
  return absl::OkStatus();
}

Effects Coordinator::Step(absl::Time now, const Event& event) {
  Begin(now);
  NoteLate(now);
  EffectSink out(options_.term, &durable_, &sessions_, &compilations_);
  EventContext context{now, out, secrets_, limits_};
  std::visit([&](const auto& e) { On(e, context); }, event);
  ForgetOldest(context);
  for (const JobName& name : std::exchange(touched_, {})) Track(name);
  next_wake_ = shutting_down_ ? absl::InfiniteFuture() : wakes_.Next();
  return out.Take();
}

void Coordinator::Begin(absl::Time now) {
  if (std::exchange(begun_, true)) return;
  const bool jobs_may_be_unknown =
      durable_.records == 0 || durable_.epoch_floor.value != 0;
  if (jobs_may_be_unknown) {
    first_epochs_from_ = now + options_.adoption_window;
  }
  for (auto& [name, job] : jobs_) {
    job.Revive(now);
    if (jobs_may_be_unknown && !job.over() && !job.has_begun()) {
      DelayFirstEpochOf(&job);
    }
    Track(name);
  }
  next_wake_ = wakes_.Next();
}

void Coordinator::NoteLate(absl::Time now) {
  if (now - next_wake_ <= late_min_) return;
  for (const JobName& name : live_) {
    Reach(name)->NoteLate(now - next_wake_, now);
  }
}

Job* Coordinator::Reach(const JobName& name) {
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) return nullptr;
  touched_.insert(name);
  return &found->second;
}

void Coordinator::Track(const JobName& name) {
  const auto found = jobs_.find(name);
  const bool lives = found != jobs_.end() && !found->second.over();
  const absl::Time wake =
      lives ? found->second.NextWake() : absl::InfiniteFuture();
  if (lives) {
    live_.insert(name);
    late_min_ = std::min(late_min_, found->second.late_min());
  } else {
    live_.erase(name);
  }
  if (wake < absl::InfiniteFuture()) {
    wakes_.Set(name, wake);
  } else {
    wakes_.Clear(name);
  }
}

// --- Streams ----------------------------------------------------------------

void Coordinator::On(const MessageReceived& event, EventContext& context) {
  const SessionId session = event.session;
  if (sessions_.IsClosed(session)) return;
  if (shutting_down_) return context.out.Close(session, GoingDown());

  std::optional<Speaker> speaker;
  if (const Speaker* bound = sessions_.Find(session)) speaker = *bound;
  if (const absl::Status taken = Take(event, speaker, context); !taken.ok()) {
    context.out.Refuse(session, event.message.job, taken);
  }
  RememberRefusal(event, context.out, context.now);
  // The worker that was bound to a stream that was just refused has lost it.
  if (speaker && sessions_.IsClosed(session)) {
    if (Job* job = Reach(speaker->job)) {
      job->StreamClosed(session, speaker->worker, "refused", context);
    }
  }
}

// A refusal is not final while offers are held.
void Coordinator::RememberRefusal(const MessageReceived& event,
                                  const EffectSink& out, absl::Time now) {
  const auto* hello = std::get_if<protocol::Hello>(&event.message.body);
  const absl::Status refusal = out.RefusalOf(event.session);
  const bool is_newcomer = hello != nullptr && hello->generation.value == 0;
  if (!is_newcomer) return;
  if (refusal.ok()) {
    return refusals_.Forget(event.message.job, hello->process);
  }
  if (!NoOffersHold(event.message.job, now).ok()) return;
  refusals_.Add(event.message.job, hello->process, refusal);
}

absl::Status Coordinator::Take(const MessageReceived& event,
                               const std::optional<Speaker>& speaker,
                               EventContext& context) {
  const protocol::ToCoordinator& message = event.message;
  const auto* hello = std::get_if<protocol::Hello>(&message.body);
  if (!speaker && hello == nullptr) {
    return absl::InvalidArgumentError("the first message was no Hello");
  }
  if (speaker && message.job != speaker->job) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "a message for job %s on the stream of %s of job %s", message.job.value,
        speaker->worker.value, speaker->job.value));
  }
  if (hello != nullptr) {
    return OnHello(event.session, message.job, *hello, speaker, context);
  }
  if (Job* job = Reach(message.job)) {
    job->Receive(event.session, speaker->worker, message, context);
  }
  return absl::OkStatus();
}

absl::Status Coordinator::OnHello(SessionId session, const JobName& name,
                                  const protocol::Hello& hello,
                                  const std::optional<Speaker>& speaker,
                                  EventContext& context) {
  if (hello.version != protocol::kVersion) {
    const auto differs = absl::FailedPreconditionError(absl::StrFormat(
        "%s speaks protocol version %d, this coordinator version %d",
        hello.worker.value, hello.version, protocol::kVersion));
    if (!IsInEpoch(hello)) return differs;
    context.out.Close(session, differs);
    return absl::OkStatus();
  }
  if (speaker && speaker->worker != hello.worker) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a Hello of %s on the stream of %s of job %s",
                        hello.worker.value, speaker->worker.value, name.value));
  }
  if (IsOfUnknownJob(name, hello)) {
    TakeOffer(session, name, hello, context);
    return absl::OkStatus();
  }
  if (IsOfJobBesideOurs(name, hello)) {
    LetTrainOn(session, name, hello, context);
    return absl::OkStatus();
  }
  if (WaitsElsewhere(name, hello)) {
    const absl::Status free = NoOffersHold(name, context.now);
    if (!free.ok()) {
      context.out.Close(session, absl::UnavailableError(free.message()));
      return absl::OkStatus();
    }
    protocol::Hello newcomer = hello;
    newcomer.generation = {};
    newcomer.secret.clear();
    newcomer.resume.reset();
    return OnHello(session, name, newcomer, speaker, context);
  }
  const absl::StatusOr<Job*> job = JobFor(name, hello, context);
  if (absl::IsUnavailable(job.status())) {
    context.out.Close(session, job.status());
    return absl::OkStatus();
  }
  if (job.ok()) (*job)->OnHello(session, hello, context);
  return job.status();
}

absl::StatusOr<Job*> Coordinator::JobFor(const JobName& name,
                                         const protocol::Hello& hello,
                                         EventContext& context) {
  if (hello.generation.value == 0) {
    const absl::Status free = NoOffersHold(name, context.now);
    if (!free.ok()) return free;
  }
  if (Job* job = Reach(name)) return job;
  if (hello.generation.value != 0) {
    return absl::UnavailableError(absl::StrFormat(
        "there is no job %s here that generation %d of %s could be part of",
        name.value, hello.generation.value, hello.worker.value));
  }
  if (!hello.spec) return UnknownJob(name);
  if (hello.spec->name != name.value) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s joins job %s with the spec of job %s",
                        hello.worker.value, name.value, hello.spec->name));
  }
  // A worker that is refused creates no job.
  if (absl::Status may = MayJoin(*hello.spec, hello); !may.ok()) return may;
  const absl::Status created =
      Create(*hello.spec, hello.token,
             absl::StrCat("its worker ", hello.worker.value), context);
  if (!created.ok()) return created;
  return Reach(name);
}

// --- Running jobs that this coordinator does not know -----------------------

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
    return context.out.Close(session, UnknownJob(name));
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
            "job %s runs already: the %d workers of its epoch %d offered it "
            "for adoption",
            name.value, adopted.members.size(), adopted.epoch.value)),
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

void Coordinator::On(const SessionClosed& event, EventContext& context) {
  const Speaker* speaker = sessions_.Find(event.session);
  if (speaker != nullptr && !shutting_down_) {
    const Speaker was = *speaker;
    if (Job* job = Reach(was.job)) {
      job->StreamClosed(event.session, was.worker, event.why, context);
    }
  }
  sessions_.Forget(event.session);
}

void Coordinator::On(const ShuttingDown&, EventContext& context) {
  shutting_down_ = true;
  for (const SessionId session : sessions_.Bound()) {
    context.out.Close(session, GoingDown());
  }
}

void Coordinator::On(const TimerExpired&, EventContext& context) {
  if (shutting_down_) return;
  // In name order, so that two runs of the same history agree.
  std::vector<JobName> due = wakes_.TakeDue(context.now);
  std::sort(due.begin(), due.end());
  for (const JobName& name : due) Reach(name)->Wake(context);
}

void Coordinator::On(const Compiled& event, EventContext& context) {
  if (shutting_down_) return;
  if (Job* job = Reach(event.job)) job->Take(event, context);
}

// --- Admin ------------------------------------------------------------------

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

// --- Questions --------------------------------------------------------------

absl::Status Coordinator::Authorize(const JobName& job,
                                    const std::string& token) const {
  const auto found = durable_.jobs.find(job);
  if (found == durable_.jobs.end()) return UnknownJob(job);
  if (TokenOpens(token, found->second.token_hash)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrFormat("the token is not that of job %s", job.value));
}

std::vector<LimitUse> Coordinator::LimitUses() const {
  return limits_.Uses(static_cast<int64_t>(live_.size()));
}

std::vector<JobSummary> Coordinator::Jobs() const {
  std::vector<JobSummary> summaries;
  for (const auto& [name, job] : jobs_) summaries.push_back(job.Summary());
  return summaries;
}

absl::StatusOr<JobView> Coordinator::Describe(const JobName& job,
                                              absl::Time now) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return UnknownJob(job);
  return found->second.Describe(now);
}

std::shared_ptr<const plan::Plan> Coordinator::FindPlan(
    const JobName& job, const std::string& digest) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : found->second.FindPlan(digest);
}

}  // namespace lockstep::core
