#include "client/session/session_impl.h"

#include <exception>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "client/session/warning.h"
#include "client/transport/failed_peer.h"

namespace lockstep {

using session::SessionPhase;
using session::View;
using session::WhyOver;

namespace {

std::optional<protocol::HeldState> HeldBy(
    const std::optional<Recovery>& recovered) {
  if (!recovered || !recovered->holds_state) return std::nullopt;
  return protocol::HeldState{{recovered->epoch}, recovered->steps};
}

session::MachineOptions MachineOptionsOf(const JoinOptions& options,
                                         const Session::Impl::Parts& p) {
  return {.job = {options.job},
          .worker = {options.worker},
          .incarnation = p.incarnation,
          .spec = options.spec,
          .token = options.token,
          .process = p.process,
          .launch = p.launch,
          .held = HeldBy(options.recovered),
          .watch_address = p.process_watch ? p.process_watch->address() : "",
          .addresses = options.addresses,
          .connect_timeout = options.connect_timeout,
          .jitter_seed = p.incarnation};
}

absl::StatusOr<std::vector<std::unique_ptr<session::ControlChannel>>>
MakeChannels(const JoinOptions& options, session::ChannelFactory& factory) {
  std::vector<std::unique_ptr<session::ControlChannel>> channels;
  for (const std::string& address : options.addresses) {
    auto channel = factory.Make(address);
    if (!channel.ok()) return channel.status();
    channels.push_back(*std::move(channel));
  }
  return channels;
}

protocol::EvidenceKind KindOf(const absl::Status& error) {
  using Kind = protocol::EvidenceKind;
  if (transport::IsProven(error)) return Kind::kExited;
  return absl::IsDeadlineExceeded(error) ? Kind::kPeerSilent : Kind::kPeerReset;
}

// Transports number the ranks of a group from 0. Adds the failed peer's rank in
// the job to the error message if it differs.
std::string WithWorldRank(const absl::Status& error, int group_rank, int rank,
                          const WorkerName& peer) {
  if (group_rank == rank) return std::string(error.message());
  return absl::StrFormat("%s (rank %d of this group is rank %d, %s)",
                         error.message(), group_rank, rank, peer.value);
}

// How long a worker that saw a peer die waits for the coordinator's cause,
// which is equal on all ranks. The coordinator needs about a round trip.
constexpr absl::Duration kCauseTimeout = absl::Milliseconds(100);

// Whole replicas of an elastic job form an epoch's mesh.
absl::StatusOr<JobSpec> SpecOfEpoch(const View& formed) {
  JobSpec spec = *formed.spec;
  const int members = static_cast<int>(formed.members.size());
  const std::optional<Mesh> mesh = MeshOfWorld(spec, members);
  if (!mesh) {
    return absl::InternalError(absl::StrFormat(
        "epoch %d of job %s has %d members, which are no mesh of it",
        formed.epoch.value, spec.name, members));
  }
  spec.mesh = *mesh;
  return spec;
}

bool HasLeft(const View& view) {
  return view.phase == SessionPhase::kLeft ||
         view.phase == SessionPhase::kFailed;
}

}  // namespace

// --- Join and destruction ---------------------------------------------------

absl::StatusOr<std::unique_ptr<Session>> Session::Impl::Join(
    const JoinOptions& options, Parts parts) {
  auto channels = MakeChannels(options, *parts.channels);
  if (!channels.ok()) return channels.status();
  std::unique_ptr<Impl> impl(new Impl(options, parts, *std::move(channels)));
  if (absl::Status formed = impl->Form(parts); !formed.ok()) {
    // Others then learn at once, not by a lease, that this worker gave up.
    impl->Leave(/*clean=*/false, formed.ToString()).IgnoreError();
    return formed;
  }
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

Session::Impl::Impl(
    const JoinOptions& options, Parts& parts,
    std::vector<std::unique_ptr<session::ControlChannel>> channels)
    : options_(options),
      clock_(std::move(parts.clock)),
      groups_(
          [this](const std::vector<int>& ranks, const std::string& call,
                 const absl::Status& error) {
            return ExplainGroup(ranks, call, error);
          },
          [this](const std::string& call, const absl::Status& error) {
            return FailHere(step(), call, error);
          }),
      halos_([this](const std::vector<int>& ranks, const std::string& call,
                    const absl::Status& error) {
        return ExplainGroup(ranks, call, error);
      }),
      event_loop_(std::make_unique<session::EventLoop>(
          MachineOptionsOf(options, parts), std::move(channels), clock_.get())),
      process_watch_(std::move(parts.process_watch)) {}

Session::Impl::~Impl() = default;

absl::Status Session::Impl::Form(Parts& parts) {
  formed_ = event_loop_->Await(
      [](const View& view) { return view.phase >= SessionPhase::kFormed; });
  // An epoch that has ended before this thread ran is to be recovered from, as
  // if it had ended after Join.
  const bool may_recover = formed_->phase == SessionPhase::kEnded &&
                           formed_->rank >= 0 && !formed_->job_over;
  if (IsOver(*formed_) && !may_recover) return WhyOver(*formed_);
  WatchProcesses();
  auto of_epoch = SpecOfEpoch(*formed_);
  if (!of_epoch.ok()) return of_epoch.status();
  spec_ = *std::move(of_epoch);
  auto transport = parts.make_transport(spec());
  // A limit of this process: all workers are told whose it is.
  if (absl::IsResourceExhausted(transport.status())) {
    return WithContext(worker(), transport.status());
  }
  if (!transport.ok()) return transport.status();
  transport_ = *std::move(transport);
  arena_ = transport_->MakeArena();
  return absl::OkStatus();
}

void Session::Impl::WatchProcesses() {
  if (process_watch_ == nullptr) return;
  const std::string& boot_id = members()[rank()].process.boot_id;
  std::vector<std::string> addresses;
  for (const protocol::Member& member : members()) {
    const bool is_here = member.process.boot_id == boot_id;
    addresses.push_back(is_here ? member.watch_address : "");
  }
  process_watch_->Watch(addresses, [this](int peer, transport::ProcessNews news,
                                          const absl::Status& why) {
    OnProcessNews(peer, news, why);
  });
}

void Session::Impl::OnProcessNews(int rank, transport::ProcessNews news,
                                  const absl::Status& why) {
  const protocol::Member& peer = members()[rank];
  protocol::Evidence evidence{.subject = peer.worker,
                              .generation = peer.generation,
                              .process = peer.process};
  switch (news) {
    case transport::ProcessNews::kWatched: return;
    case transport::ProcessNews::kExited:
      evidence.kind = protocol::EvidenceKind::kExited;
      evidence.detail =
          absl::StrFormat("the process of rank %d has ended", rank);
      break;
    case transport::ProcessNews::kSocketClosed:
      evidence.kind = protocol::EvidenceKind::kSocketClosed;
      evidence.detail = std::string(why.message());
      break;
    case transport::ProcessNews::kUnwatched:
      return session::PrintWarning(absl::StrFormat(
          "the process of rank %d (%s) is not watched: %s. Its death will be "
          "known by its connections or its lease",
          rank, peer.worker.value, why.message()));
  }
  event_loop_->ReadProgress();
  event_loop_->Post(session::PeerFailed{std::move(evidence)});
}

std::string Session::Impl::WhyDestroyed() const {
  {
    MutexLock lock(&mutex_);
    if (recovered_) return "it recovers, and may join again";
  }
  const bool unwinds =
      std::uncaught_exceptions() > uncaught_exceptions_at_creation_;
  return unwinds ? "an exception is unwinding its program"
                 : "its session was destroyed";
}

void Session::Impl::SetBeforeLeave(std::function<void()> call) {
  MutexLock lock(&mutex_);
  before_leave_ = std::move(call);
}

absl::Status Session::Impl::Leave(bool clean, const std::string& reason) {
  std::function<void()> before;
  {
    MutexLock lock(&mutex_);
    before = before_leave_;
  }
  if (clean && before) before();
  groups_.Close();
  halos_.Close();
  bool too_late = false;
  {
    MutexLock lock(&mutex_);
    const bool has_finished = last_step_passed_ || !growth_.ok() || recovered_;
    leaves_too_late_ |=
        !has_finished && event_loop_->view()->phase == SessionPhase::kEnded;
    too_late = leaves_too_late_;
    if (step_owner_ != nullptr) last_verdict_ = step_owner_->last_verdict();
    const bool finished = clean && !too_late;
    // Before others can know that it leaves: its process may end at any time.
    if (finished && process_watch_ != nullptr) process_watch_->SetDone();
    event_loop_->Leave({.clean = finished,
                        .verdict = finished ? last_verdict_ : "",
                        .reason = reason,
                        .command = last_command_,
                        .returns = !finished && recovered_});
  }
  const auto view = event_loop_->Await(HasLeft);
  if (too_late || view->phase != SessionPhase::kLeft) return view->status;
  return view->leave_status;
}

absl::Status Session::Impl::status() const {
  const absl::Status over = WhyOver(*event_loop_->view());
  return over.ok() ? growth() : over;
}

absl::Status Session::Impl::AwaitUnlessOver(
    absl::FunctionRef<bool(const View&)> holds, absl::Time deadline) {
  auto view = event_loop_->Await(
      [&](const View& view) { return IsOver(view) || holds(view); }, deadline);
  if (IsOver(*view)) {
    view = event_loop_->Await(
        [](const View& view) { return !view.provisional || !view.connected; },
        clock_->Now() + kCauseTimeout);
  }
  return WhyOver(*view);
}

// --- Groups -----------------------------------------------------------------

absl::StatusOr<AxisGroup> Session::Impl::Group(
    const protocol::AxisGroupDeclaration& declaration) {
  return groups_.Declare(spec().mesh, rank(), spec().checked, declaration);
}

absl::StatusOr<HaloExchange> Session::Impl::Halo(const HaloSpec& halo) {
  return halos_.Declare(spec().mesh, halo);
}

LaneBytes Session::Impl::lane_bytes() const {
  return {.gradient = traffic_->Of(plan::LaneKind::kGradient),
          .pipeline = traffic_->Of(plan::LaneKind::kPipeline),
          .halo = traffic_->Of(plan::LaneKind::kHalo)};
}

absl::Status Session::Impl::ConnectGroups() {
  auto plan = AgreeOnPlan({});
  if (!plan.ok()) return plan.status();
  const Revision revision = plan->revision;
  const auto connected = Connect(*std::move(plan));
  if (!connected.ok()) return connected.status();
  SetProgressSource([step = first_step(), revision] {
    return protocol::Progress{.position = {.step = step}, .revision = revision};
  });
  return absl::OkStatus();
}

absl::Status Session::Impl::ConnectDeclared(
    const plan::Plan& plan,
    session::GroupRegistry::Communicators* communicators) {
  absl::Status connected = state_.Connect(plan, rank());
  if (!connected.ok()) return connected;
  if (groups_.empty() && halos_.empty()) return absl::OkStatus();
  auto made = transport_->MakeDeviceContext();
  if (!made.ok()) return made.status();
  const std::shared_ptr<transport::DeviceContext> device = *std::move(made);
  const auto allocate = [this](size_t bytes) {
    return arena_->Allocate(bytes);
  };
  connected =
      groups_.Connect(plan,
                      {.device = device->NeedsOneOrder() ? device : nullptr,
                       .allocate = allocate},
                      communicators);
  if (!connected.ok()) return connected;
  connected = halos_.Connect(plan, rank(), spec().checked, device, allocate,
                             traffic_, communicators);
  if (!connected.ok()) return connected;
  AddWatch([this](const absl::Status& cause) {
    groups_.Abort(std::string(cause.message()));
    halos_.Abort(std::string(cause.message()));
  });
  return absl::OkStatus();
}

session::EventLoop::ProgressSource Session::Impl::WithGroups(
    session::EventLoop::ProgressSource source) {
  return [this, source = std::move(source)] {
    protocol::Progress progress = source();
    progress.groups = groups_.progress();
    for (protocol::GroupProgress& halo : halos_.progress()) {
      progress.groups.push_back(std::move(halo));
    }
    return progress;
  };
}

std::string Session::Impl::DifferentCallsText(const std::vector<int>& ranks,
                                              const std::string& call,
                                              const absl::Status& error) const {
  const std::optional<int> peer = transport::FailedPeer(error);
  std::string text(error.message());
  if (peer && *peer >= 0 && *peer < static_cast<int>(ranks.size())) {
    const int rank = ranks[*peer];
    text = WithWorldRank(error, *peer, rank, members().at(rank).worker);
  }
  return absl::StrFormat(
      "the ranks of a group call different operations: in %s of rank %d: %s. "
      "With checked: true in the spec the error has every rank's call",
      call, this->rank(), text);
}

absl::Status Session::Impl::ExplainGroup(const std::vector<int>& ranks,
                                         const std::string& call,
                                         const absl::Status& error) {
  if (absl::Status over = status(); !over.ok()) return over;
  // The ranks call different operations: no call of this rank is the cause. The
  // comparison of a checked group has ended the communicator itself.
  if (absl::IsInvalidArgument(error) || absl::IsAborted(error)) {
    return FailHere(step(), "", absl::InvalidArgumentError(error.message()));
  }
  if (absl::IsDataLoss(error)) {
    return FailHere(
        step(), "",
        absl::DataLossError(DifferentCallsText(ranks, call, error)));
  }
  ReportPeerFailure(ranks, error);
  return Explain(call, error);
}

// --- Busy -------------------------------------------------------------------

uint64_t Session::Impl::BeginBusy(const std::string& reason,
                                  absl::Duration max) {
  MutexLock lock(&mutex_);
  busy_[++last_busy_] = {reason, max};
  event_loop_->Post(session::BusyChanged{busy_[last_busy_]});
  return last_busy_;
}

void Session::Impl::EndBusy(uint64_t scope) {
  MutexLock lock(&mutex_);
  busy_.erase(scope);
  event_loop_->Post(session::BusyChanged{
      busy_.empty() ? protocol::Busy{} : busy_.rbegin()->second});
}

void Session::Impl::NoteLastStep(std::optional<Command> command) {
  MutexLock lock(&mutex_);
  last_command_ = command;
  last_step_passed_ = true;
}

// --- Failures ---------------------------------------------------------------

void Session::Impl::ReportPeerFailure(absl::Span<const int> group,
                                      const absl::Status& error) {
  const std::optional<int> failed_peer = transport::FailedPeer(error);
  if (!failed_peer || *failed_peer < 0 ||
      *failed_peer >= static_cast<int>(group.size())) {
    return;
  }
  const int rank = group[*failed_peer];
  const protocol::Member& peer = members().at(rank);
  event_loop_->ReadProgress();
  event_loop_->Post(session::PeerFailed{
      {.subject = peer.worker,
       .generation = peer.generation,
       .kind = KindOf(error),
       .detail = WithWorldRank(error, *failed_peer, rank, peer.worker),
       .process = peer.process}});
}

absl::Status Session::Impl::Explain(const std::string& call,
                                    const absl::Status& error) {
  const absl::Status why =
      AwaitUnlessOver([](const View&) { return false; },
                      clock_->Now() + ExplanationTimeout(error));
  if (!why.ok()) return why;
  return FailHere(step(), call,
                  transport::FailedPeer(error) ? Unanswered(error) : error);
}

// How long the coordinator may take to report the cause of an error.
absl::Duration Session::Impl::ExplanationTimeout(
    const absl::Status& error) const {
  const bool about_a_peer = transport::FailedPeer(error).has_value();
  // The coordinator cannot explain a resource limit of this process.
  if (!about_a_peer && absl::IsResourceExhausted(error)) {
    return absl::ZeroDuration();
  }
  const JobTimeouts& timeouts = spec().timeouts;
  const absl::Duration answer = timeouts.resume + absl::Seconds(1);
  // The coordinator knows that a peer is stopped when its lease has expired.
  return about_a_peer && event_loop_->view()->connected
             ? timeouts.lease + answer
             : answer;
}

// Ends this worker alone: the coordinator has not reported whether the other
// ranks stop or continue.
absl::Status Session::Impl::Unanswered(const absl::Status& error) const {
  return absl::Status(
      error.code(),
      absl::StrFormat("%s; and the coordinator %s: this worker is cut off, or "
                      "they are, and has fenced itself",
                      error.message(),
                      event_loop_->view()->connected
                          ? "has not said anything of it"
                          : "is not heard either"));
}

absl::Status Session::Impl::FailHere(uint64_t step, const std::string& call,
                                     const absl::Status& failure) {
  event_loop_->Post(
      session::FailLocally{{.step = step,
                            .call = call,
                            .code = failure.code(),
                            .message = std::string(failure.message())}});
  const absl::Status over = AwaitUnlessOver([](const View&) { return false; });
  // The watch does so too, but perhaps after the caller's next call.
  groups_.Abort(std::string(over.message()));
  return over;
}

void Session::Impl::ReportFailure(uint64_t step, const std::string& call,
                                  const absl::Status& failure) {
  FailHere(step, call, failure).IgnoreError();
}

}  // namespace lockstep
