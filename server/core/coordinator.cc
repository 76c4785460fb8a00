#include "server/core/coordinator.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "server/core/outbox.h"
#include "server/core/sentences.h"
#include "server/core/token.h"

namespace lockstep::core {
namespace {

absl::Status UnknownJob(const JobName& job) {
  return absl::NotFoundError(
      absl::StrFormat("there is no job %s here", job.value));
}

absl::Status GoingDown() {
  return absl::UnavailableError("coordinator is shutting down");
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options)
    : options_(options) {}
Coordinator::~Coordinator() = default;

absl::Status Coordinator::Replay(const record::Record& record) {
  if (absl::Status applied = Apply(record, &durable_); !applied.ok()) {
    return applied;
  }
  const auto& [name, job] = *durable_.jobs.find(record.job);
  jobs_.try_emplace(name, job, options_.stopped_after);
  return absl::OkStatus();
}

Effects Coordinator::Step(absl::Time now, const Event& event) {
  Begin(now);
  NoteLate(now);
  Outbox out(options_.term, &durable_, &sessions_);
  Turn turn{now, out};
  std::visit([&](const auto& e) { On(e, turn); }, event);

  next_wake_ = absl::InfiniteFuture();
  if (!shutting_down_) {
    for (const auto& [name, job] : jobs_) {
      next_wake_ = std::min(next_wake_, job.NextWake());
    }
  }
  return out.Take();
}

void Coordinator::Begin(absl::Time now) {
  if (std::exchange(begun_, true)) return;
  for (auto& [name, job] : jobs_) job.Revive(now);
}

void Coordinator::NoteLate(absl::Time now) {
  if (now <= next_wake_) return;
  for (auto& [name, job] : jobs_) job.NoteLate(now - next_wake_, now);
}

// --- Streams ----------------------------------------------------------------

void Coordinator::On(const Received& event, Turn& turn) {
  const SessionId session = event.session;
  if (sessions_.IsClosed(session)) return;
  if (shutting_down_) return turn.out.Close(session, GoingDown());

  std::optional<Speaker> speaker;
  if (const Speaker* bound = sessions_.Find(session)) speaker = *bound;
  if (const absl::Status taken = Take(event, speaker, turn); !taken.ok()) {
    turn.out.Refuse(session, event.message.job, taken);
  }
  // Whoever spoke on a stream that was just refused has lost it.
  if (speaker && sessions_.IsClosed(session)) {
    jobs_.at(speaker->job)
        .StreamClosed(session, speaker->worker, "refused", turn);
  }
}

absl::Status Coordinator::Take(const Received& event,
                               const std::optional<Speaker>& speaker,
                               Turn& turn) {
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
    return Greet(event.session, message.job, *hello, speaker, turn);
  }
  jobs_.at(message.job).Receive(event.session, speaker->worker, message, turn);
  return absl::OkStatus();
}

absl::Status Coordinator::Greet(SessionId session, const JobName& name,
                                const protocol::Hello& hello,
                                const std::optional<Speaker>& speaker,
                                Turn& turn) {
  if (hello.version != protocol::kVersion) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s speaks protocol version %d, this coordinator version %d",
        hello.worker.value, hello.version, protocol::kVersion));
  }
  if (speaker && speaker->worker != hello.worker) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a Hello of %s on the stream of %s of job %s",
                        hello.worker.value, speaker->worker.value, name.value));
  }
  const absl::StatusOr<Job*> job = JobFor(name, hello, turn);
  if (absl::IsUnavailable(job.status())) {
    // Who trains goes on without a coordinator that does not know it: the job
    // may be known elsewhere, or again later.
    turn.out.Close(session, job.status());
    return absl::OkStatus();
  }
  if (job.ok()) (*job)->Greet(session, hello, turn);
  return job.status();
}

absl::StatusOr<Job*> Coordinator::JobFor(const JobName& name,
                                         const protocol::Hello& hello,
                                         Turn& turn) {
  const auto found = jobs_.find(name);
  if (found != jobs_.end()) return &found->second;
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
  const absl::Status created = Create(*hello.spec, hello.token, turn);
  if (!created.ok()) return created;
  return &jobs_.at(name);
}

void Coordinator::On(const SessionClosed& event, Turn& turn) {
  const Speaker* speaker = sessions_.Find(event.session);
  if (speaker != nullptr && !shutting_down_) {
    const Speaker was = *speaker;
    jobs_.at(was.job).StreamClosed(event.session, was.worker, event.why, turn);
  }
  sessions_.Forget(event.session);
}

void Coordinator::On(const ShuttingDown&, Turn& turn) {
  shutting_down_ = true;
  for (const SessionId session : sessions_.Bound()) {
    turn.out.Close(session, GoingDown());
  }
}

void Coordinator::On(const Wake&, Turn& turn) {
  if (shutting_down_) return;
  for (auto& [name, job] : jobs_) {
    if (job.NextWake() <= turn.now) job.Wake(turn);
  }
}

// --- Admin ------------------------------------------------------------------

void Coordinator::On(const CreateJob& event, Turn& turn) {
  turn.out.Answer(event.request, shutting_down_
                                     ? GoingDown()
                                     : Create(event.spec, event.token, turn));
}

void Coordinator::On(const CommandJob& event, Turn& turn) {
  absl::StatusOr<Job*> job = Authorized(event.job, event.token);
  absl::Status done = job.status();
  if (job.ok()) {
    done = (*job)->over() ? (*job)->Over()
                          : (*job)->Obey(event.command, event.reason, turn);
  }
  turn.out.Answer(event.request, std::move(done));
}

void Coordinator::On(const StopJob& event, Turn& turn) {
  absl::StatusOr<Job*> job = Authorized(event.job, event.token);
  if (job.ok() && (*job)->over()) job = (*job)->Over();
  if (job.ok()) (*job)->Stop(event.reason, turn);
  turn.out.Answer(event.request, job.status());
}

void Coordinator::On(const ReportEvidence& event, Turn& turn) {
  const absl::StatusOr<Job*> job = Authorized(event.job, event.token);
  if (job.ok()) (*job)->Consider(event.evidence, /*accuser=*/{}, turn);
  turn.out.Answer(event.request, job.status());
}

absl::Status Coordinator::Create(const JobSpec& spec, const std::string& token,
                                 Turn& turn) {
  if (absl::Status valid = Validate(spec); !valid.ok()) return valid;
  const JobName name{spec.name};
  if (const auto found = jobs_.find(name); found != jobs_.end()) {
    return CreateAgain(found->second, spec, token);
  }
  turn.out.Record(name, record::JobCreated{spec, HashOfToken(token)});
  jobs_.try_emplace(name, durable_.jobs.at(name), options_.stopped_after);
  turn.out.Note(name, absl::StrFormat("job %s was created for %s", spec.name,
                                      ToString(spec.mesh)));
  return absl::OkStatus();
}

// Creating an equal job again is harmless; launchers do it.
absl::Status Coordinator::CreateAgain(const Job& job, const JobSpec& spec,
                                      const std::string& token) const {
  if (job.over()) {
    return absl::AlreadyExistsError(absl::StrFormat(
        "job %s exists already: it is %s", spec.name, Name(job.state())));
  }
  if (absl::Status may = Authorize({spec.name}, token); !may.ok()) return may;
  const absl::Status same = SameSpec(job.spec(), spec, {"the request"});
  return same.ok() ? same : absl::AlreadyExistsError(same.message());
}

absl::StatusOr<Job*> Coordinator::Authorized(const JobName& name,
                                             const std::string& token) {
  if (shutting_down_) return GoingDown();
  if (absl::Status may = Authorize(name, token); !may.ok()) return may;
  return &jobs_.at(name);
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
