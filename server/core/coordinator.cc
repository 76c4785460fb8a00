#include "server/core/coordinator.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/core/admission.h"
#include "server/core/coordinator_status.h"
#include "server/core/effect_sink.h"
#include "server/core/status_text.h"
#include "server/core/token.h"

namespace lockstep::core {

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
      job->StreamClosed(session, speaker->worker,
                        absl::StrCat("it was refused: ",
                                     context.out.EndOf(session).message()),
                        context);
    }
  }
}

// A refusal is not final while offers are held.
void Coordinator::RememberRefusal(const MessageReceived& event,
                                  const EffectSink& out, absl::Time now) {
  const auto* hello = std::get_if<protocol::Hello>(&event.message.body);
  const absl::Status refusal = out.RefusalOf(event.session);
  // A process that holds state is not refused if it is started again.
  const bool is_newcomer =
      hello != nullptr && hello->generation.value == 0 && !hello->held;
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
  if (hello != nullptr && message.term > options_.term) {
    const absl::Status older =
        OlderTerm(message.job, hello->worker, options_.term, message.term);
    if (message.term > term_heard_) {
      context.out.Note(message.job, std::string(older.message()));
    }
    term_heard_ = std::max(term_heard_, message.term);
    context.out.Close(event.session, older);
    return absl::OkStatus();
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
  if (HoldsUnknownState(name, hello)) {
    return RefuseUnknownState(session, name, hello, context);
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

Measurements Coordinator::Measure(absl::Time now) const {
  Measurements measured{.limits = LimitUses()};
  for (JobState state = JobState::kForming; state <= JobState::kStopped;
       state = static_cast<JobState>(static_cast<int>(state) + 1)) {
    measured.jobs[state] = 0;
  }
  for (const auto& [name, job] : jobs_) {
    ++measured.jobs[job.state()];
    if (!job.over()) measured.living.push_back(job.Measure(now));
  }
  return measured;
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
