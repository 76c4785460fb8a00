#include "server/runtime/coordinator_loop.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace lockstep::runtime {
namespace {

absl::Status GoingDown() {
  return absl::UnavailableError("the coordinator is going down");
}

constexpr char kJournalWaits[] =
    "the journal has no room: steps go on, but nothing new is promised, and no "
    "worker joins or leaves, until there is some: ";

// The job that an event may have changed; nullptr if unknown.
const JobName* JobOf(const core::Event& event) {
  if (const auto* received = std::get_if<core::MessageReceived>(&event)) {
    return &received->message.job;
  }
  if (const auto* compiled = std::get_if<core::Compiled>(&event)) {
    return &compiled->job;
  }
  return nullptr;
}

}  // namespace

CoordinatorLoop::CoordinatorLoop(Wiring wiring)
    : wiring_(std::move(wiring)),
      sessions_open_(wiring_.metrics->GetGauge({"lockstep_sessions"})),
      received_(
          wiring_.metrics->GetCounter({"lockstep_messages_received_total"})),
      sent_(wiring_.metrics->GetCounter({"lockstep_messages_sent_total"})),
      event_seconds_(wiring_.metrics->GetHistogram({"lockstep_event_seconds"})),
      commit_seconds_(
          wiring_.metrics->GetHistogram({"lockstep_journal_commit_seconds"})),
      journal_waits_(
          wiring_.metrics->GetGauge({"lockstep_journal_waits_for_room"})),
      record_counters_(wiring_.metrics),
      watches_([this](const JobName& job, absl::Time now) {
        return ViewOf(job, now);
      }),
      hellos_(wiring_.hello),
      loop_("ls-coordinator", wiring_.clock),
      wake_(&loop_, [this] { Apply(core::TimerExpired{}); }),
      show_(&loop_,
            [this] {
              watches_.Update(loop_.clock().Now());
              ArmTimers();
            }),
      abandon_(&loop_, [this] { AbandonOverdue(); }),
      silent_(&loop_, [this] { CloseSilent(); }),
      compile_threads_(wiring_.plans) {
  wiring_.journal->OnTrouble([this](absl::Status trouble) {
    loop_.Post([this, trouble = std::move(trouble)] { NoteTrouble(trouble); });
  });
  loop_.Post(
      [this] { Apply(core::TimerExpired{}); });  // exports the replayed state
}

CoordinatorLoop::~CoordinatorLoop() {
  Stop();
  wiring_.journal.reset();  // its last callbacks still use this object
}

void CoordinatorLoop::Stop() { loop_.Stop(); }

// --- One event --------------------------------------------------------------

void CoordinatorLoop::Apply(const core::Event& event) {
  const absl::Time now = loop_.clock().Now();
  core::Effects effects = wiring_.coordinator->Step(now, event);
  event_seconds_->Observe(absl::ToDoubleSeconds(loop_.clock().Now() - now));
  Persist(gate_.Admit(std::move(effects)));
  DeliverReleased();

  const JobName* job = JobOf(event);
  job != nullptr ? watches_.Touch(*job) : watches_.TouchAll();
  watches_.Update(now);
  ArmTimers();
}

void CoordinatorLoop::ArmTimers() {
  wake_.Set(wiring_.coordinator->NextWake());
  show_.Set(watches_.NextUpdate());
}

// --- Durability -------------------------------------------------------------

void CoordinatorLoop::Persist(std::vector<record::Record> records) {
  const absl::Time now = loop_.clock().Now();
  for (const record::Record& record : records) {
    record_counters_.Add(record);
    std::string bytes = wiring_.codec.record_bytes(record);
    compaction_.Appended(bytes.size());
    wiring_.journal->Append(std::move(bytes), [this, number = record.number,
                                               now](absl::Status status) {
      if (loop_.OnThread()) return JournalSaid(number, now, status);
      loop_.Post([this, number, now, status] {
        JournalSaid(number, now, status);
        DeliverReleased();
      });
    });
  }
  if (!records.empty()) CompactIfDue();
}

// The copy is made here, between two events; its bytes on the journal's thread.
void CoordinatorLoop::CompactIfDue() {
  if (journal_failed_ || !compaction_.TakeDue()) return;
  wiring_.journal->Compact(
      [this, snapshot = core::SnapshotOf(wiring_.coordinator->durable())] {
        std::vector<std::string> parts = wiring_.codec.snapshot_parts(snapshot);
        size_t bytes = 0;
        for (const std::string& part : parts) bytes += part.size();
        if (loop_.OnThread()) {
          compaction_.Made(bytes);
        } else {
          loop_.Post([this, bytes] { compaction_.Made(bytes); });
        }
        return parts;
      });
}

void CoordinatorLoop::JournalSaid(uint64_t record_number, absl::Time appended,
                                  const absl::Status& status) {
  if (journal_failed_) return;
  if (status.ok()) {
    commit_seconds_->Observe(
        absl::ToDoubleSeconds(loop_.clock().Now() - appended));
    return gate_.MarkDurable(record_number);
  }
  journal_failed_ = true;
  wiring_.on_journal_failure(status);
}

void CoordinatorLoop::NoteTrouble(const absl::Status& trouble) {
  journal_trouble_ = std::string(trouble.message());
  journal_waits_->Set(trouble.ok() ? 0 : 1);
  if (wiring_.on_journal_trouble) wiring_.on_journal_trouble(trouble);
  DeliverReleased();
  watches_.TouchAll();
  watches_.Update(loop_.clock().Now());
  ArmTimers();
}

absl::StatusOr<JobView> CoordinatorLoop::ViewOf(const JobName& job,
                                                absl::Time now) const {
  absl::StatusOr<JobView> view = wiring_.coordinator->Describe(job, now);
  if (view.ok() && !journal_trouble_.empty()) {
    view->warnings.push_back(absl::StrCat(kJournalWaits, journal_trouble_));
  }
  return view;
}

// --- Effects ----------------------------------------------------------------

void CoordinatorLoop::DeliverReleased() {
  for (const core::Effect& effect : gate_.Release()) {
    std::visit([this](const auto& e) { Deliver(e); }, effect);
  }
  if (!journal_trouble_.empty()) AnswerWithoutRoom();
}

// An operator would give up before there is room. A refusal promises nothing,
// and is given as it is.
void CoordinatorLoop::AnswerWithoutRoom() {
  for (core::AdminReply& reply : gate_.TakeReplies()) {
    if (reply.status.ok()) {
      reply.status = absl::ResourceExhaustedError(
          absl::StrCat("the coordinator cannot make this durable, because its "
                       "journal has no room. The request waits, and is carried "
                       "out when there is some, unless the coordinator ends "
                       "before: ",
                       journal_trouble_));
    }
    Deliver(reply);
  }
}

void CoordinatorLoop::Deliver(const core::Send& effect) {
  const auto found = sessions_.find(effect.session);
  if (found == sessions_.end()) return;  // the stream has broken
  sent_->Add();
  if (found->second->Send(effect.message)) return;
  Close(effect.session,
        absl::ResourceExhaustedError("the worker reads its stream too slowly"));
}

void CoordinatorLoop::Deliver(const core::CloseSession& effect) {
  Close(effect.session, effect.status);
}

void CoordinatorLoop::Deliver(const core::Persist&) {
  Fatal("the durability gate let a record out");
}

void CoordinatorLoop::Deliver(const core::AdminReply& effect) {
  auto waiting = waiting_.extract(effect.request);
  if (!waiting.empty()) waiting.mapped()(effect.status);
}

void CoordinatorLoop::Deliver(const core::Compile& effect) {
  compile_threads_.Run(
      effect.input, [this, id = effect.id, job = effect.job](
                        absl::StatusOr<core::CompiledPlan> result) {
        loop_.Post([this, id, job, result = std::move(result)]() mutable {
          Apply(core::Compiled{id, job, std::move(result)});
        });
      });
}

void CoordinatorLoop::Deliver(const core::Note& effect) {
  wiring_.events->Note(effect.job, effect.text);
}

// --- Streams ----------------------------------------------------------------

void CoordinatorLoop::Close(core::SessionId session,
                            const absl::Status& status) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  found->second->Close(status);
  closing_.emplace_back(loop_.clock().Now() + kClosePatience, session);
  abandon_.Set(closing_.front().first);
}

void CoordinatorLoop::AbandonOverdue() {
  const absl::Time now = loop_.clock().Now();
  while (!closing_.empty() && closing_.front().first <= now) {
    const auto found = sessions_.find(closing_.front().second);
    closing_.pop_front();
    if (found != sessions_.end()) found->second->Abandon();
  }
  if (!closing_.empty()) abandon_.Set(closing_.front().first);
}

void CoordinatorLoop::CloseSilent() {
  for (const core::SessionId session :
       hellos_.TakeExpired(loop_.clock().Now())) {
    Close(session, absl::DeadlineExceededError(absl::StrCat(
                       "no Hello was received within ",
                       absl::FormatDuration(hellos_.limits().timeout))));
  }
  silent_.Set(hellos_.Next());
}

core::SessionId CoordinatorLoop::Open(std::shared_ptr<SessionStream> stream) {
  const core::SessionId session{next_session_.fetch_add(1)};
  loop_.Post([this, session, stream = std::move(stream)] {
    sessions_open_->Set(static_cast<double>(sessions_.size() + 1));
    sessions_.emplace(session, stream);
    if (draining_) return Close(session, GoingDown());
    if (const auto oldest = hellos_.Add(session, loop_.clock().Now())) {
      Close(*oldest,
            absl::UnavailableError(absl::StrCat(
                "more than ", hellos_.limits().streams,
                " streams wait for their first message, Hello, and this one "
                "has waited longest (lockstepd --hello_streams_max)")));
    }
    silent_.Set(hellos_.Next());
  });
  return session;
}

void CoordinatorLoop::Receive(core::SessionId session,
                              protocol::ToCoordinator message) {
  loop_.Post([this, session, message = std::move(message)]() mutable {
    received_->Add();
    hellos_.Remove(session);
    Apply(core::MessageReceived{session, std::move(message)});
    const auto found = sessions_.find(session);
    if (found != sessions_.end()) found->second->Applied();
  });
}

void CoordinatorLoop::Closed(core::SessionId session, std::string why) {
  loop_.Post([this, session, why = std::move(why)] {
    sessions_.erase(session);
    hellos_.Remove(session);
    sessions_open_->Set(static_cast<double>(sessions_.size()));
    Apply(core::SessionClosed{session, why});
  });
}

// --- Operator requests ------------------------------------------------------

template <typename MakeEvent>
void CoordinatorLoop::Ask(Done done, MakeEvent make_event) {
  loop_.Post([this, done = std::move(done),
              make_event = std::move(make_event)]() mutable {
    if (draining_) return done(GoingDown());
    const core::RequestId request{next_request_++};
    waiting_.emplace(request, std::move(done));
    Apply(make_event(request));
  });
}

void CoordinatorLoop::CreateJob(JobSpec spec, core::Requester by, Done done) {
  Ask(std::move(done),
      [spec = std::move(spec), by = std::move(by)](core::RequestId request) {
        return core::CreateJob{request, spec, by.token, by.name};
      });
}

void CoordinatorLoop::CommandJob(JobName job, core::Requester by,
                                 JobCommand command, std::string reason,
                                 Done done) {
  Ask(std::move(done), [job = std::move(job), by = std::move(by), command,
                        reason = std::move(reason)](core::RequestId request) {
    return core::CommandJob{request, job, by.token, command, reason, by.name};
  });
}

void CoordinatorLoop::StopJob(JobName job, core::Requester by,
                              std::string reason, Done done) {
  Ask(std::move(done), [job = std::move(job), by = std::move(by),
                        reason = std::move(reason)](core::RequestId request) {
    return core::StopJob{request, job, by.token, reason, by.name};
  });
}

void CoordinatorLoop::DeleteJob(JobName job, core::Requester by, bool keep,
                                Done done) {
  Ask(std::move(done), [job = std::move(job), by = std::move(by),
                        keep](core::RequestId request) {
    return core::DeleteJob{request, job, by.token, keep, by.name};
  });
}

void CoordinatorLoop::ReportEvidence(JobName job, std::string token,
                                     protocol::Evidence evidence, Done done) {
  Ask(std::move(done),
      [job = std::move(job), token = std::move(token),
       evidence = std::move(evidence)](core::RequestId request) {
        return core::ReportEvidence{request, job, token, evidence};
      });
}

void CoordinatorLoop::ListJobs(std::string token,
                               Reply<std::vector<JobSummary>> reply) {
  loop_.Post(
      [this, token = std::move(token), reply = std::move(reply)]() mutable {
        std::vector<JobSummary> visible;
        for (JobSummary& job : wiring_.coordinator->Jobs()) {
          if (wiring_.coordinator->Authorize(job.name, token).ok()) {
            visible.push_back(std::move(job));
          }
        }
        reply(std::move(visible));
      });
}

void CoordinatorLoop::DescribeJob(JobName job, std::string token,
                                  Reply<JobView> reply) {
  loop_.Post([this, job = std::move(job), token = std::move(token),
              reply = std::move(reply)]() mutable {
    const absl::Status may = wiring_.coordinator->Authorize(job, token);
    if (!may.ok()) return reply(may);
    reply(ViewOf(job, loop_.clock().Now()));
  });
}

void CoordinatorLoop::FindPlan(JobName job, std::string token,
                               std::string digest,
                               Reply<std::shared_ptr<const plan::Plan>> reply) {
  loop_.Post([this, job = std::move(job), token = std::move(token),
              digest = std::move(digest), reply = std::move(reply)]() mutable {
    const absl::Status may = wiring_.coordinator->Authorize(job, token);
    if (!may.ok()) return reply(may);
    auto plan = wiring_.coordinator->FindPlan(job, digest);
    if (plan != nullptr) return reply(std::move(plan));
    reply(absl::NotFoundError(
        absl::StrCat("job ", job.value, " has no plan ", digest, " now")));
  });
}

void CoordinatorLoop::ListLimits(Reply<std::vector<LimitUse>> reply) {
  loop_.Post([this, reply = std::move(reply)]() mutable {
    std::vector<LimitUse> uses = wiring_.coordinator->LimitUses();
    for (LimitUse& use : hellos_.Uses()) uses.push_back(std::move(use));
    reply(std::move(uses));
  });
}

void CoordinatorLoop::Measure(Reply<core::Measurements> reply) {
  loop_.Post([this, reply = std::move(reply)]() mutable {
    core::Measurements measured =
        wiring_.coordinator->Measure(loop_.clock().Now());
    for (LimitUse& use : hellos_.Uses()) {
      measured.limits.push_back(std::move(use));
    }
    reply(std::move(measured));
  });
}

uint64_t CoordinatorLoop::Watch(JobName job, std::string token,
                                std::shared_ptr<Watcher> watcher) {
  const uint64_t watch = next_watch_.fetch_add(1);
  loop_.Post([this, watch, job = std::move(job), token = std::move(token),
              watcher = std::move(watcher)] {
    const absl::Status may = wiring_.coordinator->Authorize(job, token);
    if (draining_) return watcher->End(GoingDown());
    if (!may.ok()) return watcher->End(may);
    watches_.Add(watch, job, watcher, loop_.clock().Now());
    ArmTimers();
  });
  return watch;
}

void CoordinatorLoop::Unwatch(uint64_t watch) {
  loop_.Post([this, watch] { watches_.Remove(watch); });
}

// --- Shutdown ---------------------------------------------------------------

void CoordinatorLoop::Drain() {
  loop_.Post([this] { DrainOnLoop(); });
}

void CoordinatorLoop::DrainOnLoop() {
  if (std::exchange(draining_, true)) return;
  Apply(core::ShuttingDown{});
  // The coordinator does not know streams without a Hello.
  for (const auto& [session, stream] : sessions_) Close(session, GoingDown());
  watches_.EndAll(GoingDown());
  for (auto& [request, done] : waiting_) done(GoingDown());
  waiting_.clear();
}

}  // namespace lockstep::runtime
