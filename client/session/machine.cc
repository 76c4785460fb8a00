#include "client/session/machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "plan/digest.h"

namespace lockstep::session {
namespace {

// A part of gRPC's error if one side does not accept the other's certificate.
// gRPC itself writes a line to standard error at each try, also at its own.
constexpr char kUnfitForTls[] = "handshake failed";
constexpr absl::Duration kUnfitPause = absl::Seconds(1);

// Whether the next stream would end with the same error.
bool IsPermanent(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted: return true;
    default: return false;
  }
}

}  // namespace

Machine::Machine(const MachineOptions& options)
    : options_(options),
      reconnector_(static_cast<int>(options.addresses.size()),
                   Backoff(options.backoff_initial, options.backoff_max,
                           options.jitter_seed),
                   options.welcome_timeout),
      heartbeats_(options.progress_interval) {}

Effects Machine::Step(absl::Time now, const Event& event) {
  now_ = now;
  std::visit([this](const auto& e) { On(e); }, event);
  SendDue();
  return std::exchange(effects_, {});
}

absl::Time Machine::NextWake() const {
  if (Gone()) return absl::InfiniteFuture();
  return std::min({reconnector_.NextWake(), heartbeats_.NextDue(),
                   checkpoints_.NextDue(), give_up_at_, leave_by_});
}

void Machine::SendDue() {
  if (Gone()) return;
  if (leave_deadline_ <= now_) {
    return Leave(absl::UnavailableError(absl::StrFormat(
        "left job %s, but the coordinator did not answer within %s",
        options_.job.value, absl::FormatDuration(leave_patience_))));
  }
  // It may be stopped while another one leads.
  if (leave_by_ <= now_) {
    DropStream(absl::UnavailableError("it did not answer Leave"));
  }
  if (give_up_at_ <= now_) return Fail(NoCoordinator());
  if (reconnector_.TimedOut(now_)) {
    DropStream(absl::DeadlineExceededError("no answer"));
  }
  if (auto open = reconnector_.TakeDue(now_)) effects_.emplace_back(*open);
  SendCheckpointReport();
  if (auto word = heartbeats_.TakeDue(now_)) Send(*std::move(word));
}

// With the outcome that this rank knows, for a coordinator that forgot it.
void Machine::SendCheckpointReport() {
  auto report = checkpoints_.TakeDue(now_);
  if (!report) return;
  report->decided = view_.checkpoints.decided;
  report->faults = view_.checkpoints.faults;
  report->faults_more = view_.checkpoints.faults_more;
  Send(*std::move(report));
}

// --- Streams ----------------------------------------------------------------

void Machine::On(const Begin&) {
  give_up_at_ = now_ + options_.connect_timeout;
}

void Machine::On(const StreamOpened& event) {
  if (reconnector_.IsCurrent(event.stream)) Send(MakeHello());
}

void Machine::On(const StreamClosed& event) {
  if (!reconnector_.IsCurrent(event.stream)) return;
  LoseStream(event.status);
  if (NeedsCoordinator() && IsPermanent(event.status)) {
    Fail(absl::Status(
        event.status.code(),
        absl::StrFormat("the coordinator of job %s ended the stream of %s: %s",
                        options_.job.value, options_.worker.value,
                        event.status.message())));
  }
  // The epoch has ended, so it cannot be adopted either.
  if (view_.phase == SessionPhase::kEnded && !unacked_.leave() &&
      absl::IsNotFound(event.status)) {
    EndStream();
    Change().forgotten = event.status;
  }
}

void Machine::On(const StreamMessage& event) {
  const protocol::ToWorker& message = event.message;
  if (!reconnector_.IsCurrent(event.stream) || message.job != options_.job)
    return;
  if (message.term < term_) {
    return DropStream(absl::UnavailableError(
        absl::StrFormat("it leads term %d, but term %d was heard",
                        message.term.value, term_.value)));
  }
  term_ = message.term;
  std::visit([&](const auto& body) { Receive(message.epoch, body); },
             message.body);
}

void Machine::DropStream(absl::Status why) {
  effects_.emplace_back(CloseStream{reconnector_.current()});
  LoseStream(std::move(why));
}

void Machine::LoseStream(absl::Status why) {
  last_close_ = std::move(why);
  const bool unfit = absl::StrContains(last_close_.message(), kUnfitForTls);
  if (unfit && !said_unfit_) {
    effects_.emplace_back().emplace<Warn>().text = absl::StrCat(
        "a coordinator of ", absl::StrJoin(options_.addresses, ", "),
        " cannot be reached by TLS, and is tried again each second: ",
        last_close_.message());
    said_unfit_ = true;
  }
  reconnector_.Lost(now_, unfit ? kUnfitPause : absl::ZeroDuration());
  heartbeats_.Disconnected();
  checkpoints_.SetConnected(false);
  if (view_.connected) {
    View& view = Change();
    view.connected = false;
    view.order_wanted = {};  // a new stream asks again
  }
  if (unacked_.leave()) leave_by_ = leave_deadline_;
  if (NeedsCoordinator()) {
    give_up_at_ = std::min(give_up_at_, now_ + options_.connect_timeout);
  }
}

protocol::Hello Machine::MakeHello() const {
  protocol::Hello hello{.worker = options_.worker,
                        .generation = view_.generation,
                        .incarnation = options_.incarnation,
                        .spec = options_.spec,
                        .token = options_.token,
                        .process = options_.process,
                        .launch = options_.launch,
                        .held = options_.held,
                        .watch_address = options_.watch_address};
  if (view_.generation.value == 0) return hello;
  // A coordinator that does not know the job may need all of this.
  hello.spec = view_.spec;
  hello.resume = MakeResumeState();
  hello.secret = secret_;
  return hello;
}

protocol::ResumeState Machine::MakeResumeState() const {
  protocol::ResumeState resume{.epoch = view_.epoch,
                               .position = heartbeats_.position(),
                               .started = unacked_.started(),
                               .rank = view_.rank,
                               .wanted = view_.wanted,
                               .ended = view_.phase == SessionPhase::kEnded,
                               .leaving = unacked_.leave().has_value(),
                               .first_step = view_.first_step,
                               .world = static_cast<int>(view_.members.size())};
  if (view_.rank >= 0)
    resume.members_digest = plan::DigestOf(view_.members.items());
  if (const auto& ack = unacked_.ack()) {
    resume.revision = ack->revision;
    resume.plan_digest = ack->digest;
    if (view_.rank == 0) resume.observed_order = observed_order_;
  }
  return resume;
}

absl::Status Machine::NoCoordinator() const {
  return absl::UnavailableError(absl::StrFormat(
      "no coordinator of job %s answered at %s within %s (last: %s)",
      options_.job.value, absl::StrJoin(options_.addresses, ", "),
      absl::FormatDuration(options_.connect_timeout), last_close_.ToString()));
}

// --- Actions ----------------------------------------------------------------

void Machine::State(protocol::ToCoordinatorBody body) {
  if (view_.connected) Send(std::move(body));
}

void Machine::Send(protocol::ToCoordinatorBody body) {
  heartbeats_.Sent(now_);
  effects_.emplace_back(
      SendOn{reconnector_.current(),
             {options_.job, view_.epoch, term_, std::move(body)}});
}

void Machine::EndEpoch(absl::Status status) {
  if (IsOver(view_)) return;
  heartbeats_.SetInEpoch(false);
  checkpoints_.Clear();
  give_up_at_ = absl::InfiniteFuture();
  View& view = Change();
  view.phase = SessionPhase::kEnded;
  view.status = std::move(status);
}

void Machine::Fail(absl::Status status) {
  EndStream();
  // An epoch that has already ended keeps its reason.
  if (view_.phase == SessionPhase::kEnded) {
    Change().fenced = std::move(status);
    return;
  }
  View& view = Change();
  view.phase = SessionPhase::kFailed;
  view.status = std::move(status);
}

void Machine::Leave(absl::Status status) {
  EndStream();
  View& view = Change();
  view.phase = SessionPhase::kLeft;
  view.leave_status = std::move(status);
}

void Machine::EndStream() {
  hung_up_ = true;
  if (reconnector_.current() != 0)
    effects_.emplace_back(CloseStream{reconnector_.current()});
  reconnector_.Stop();
  heartbeats_.Disconnected();
  checkpoints_.SetConnected(false);
  give_up_at_ = absl::InfiniteFuture();
  leave_by_ = absl::InfiniteFuture();
  if (view_.connected) Change().connected = false;
}

bool Machine::InEpoch() const {
  return view_.phase >= SessionPhase::kFormed &&
         view_.phase <= SessionPhase::kRunning;
}

View& Machine::Change() {
  ++changes_;
  return view_;
}

}  // namespace lockstep::session
