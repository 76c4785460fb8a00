// A simulated worker from the start of its process to the first step of an
// epoch. Its steps and its recovery are in trainer_steps.cc.

#include "tests/sim/trainer.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "plan/digest.h"
#include "plan/state/recovery.h"
#include "proto/plan_chunks.h"
#include "protocol/chunks.h"
#include "tests/client/session/describe.h"
#include "tests/sim/training_world.h"

namespace lockstep::sim {

using session::SessionPhase;

namespace {

std::shared_ptr<const std::string> BytesOf(const plan::Plan& plan) {
  return std::make_shared<const std::string>(proto::PlanBytes(plan));
}

}  // namespace

class Trainer::StreamEnd final : public StreamUser {
 public:
  StreamEnd(Trainer* trainer, uint64_t session)
      : trainer_(trainer->weak_from_this()),
        session_(session),
        host_(trainer->host()) {}

  void RunAwake(std::function<void()> what) override {
    if (const auto trainer = trainer_.lock()) {
      trainer->RunAwake(session_, std::move(what));
    }
  }
  void Receive(const session::Event& event) override {
    if (const auto trainer = trainer_.lock()) trainer->Apply(event);
  }
  const std::string& host() const override { return host_; }

 private:
  const std::weak_ptr<Trainer> trainer_;
  const uint64_t session_;
  const std::string host_;
};

Trainer::Trainer(TrainingWorld* world, const Options& options)
    : world_(*world),
      options_(options),
      host_(absl::StrCat(options.name, "#", options.process)) {}

void Trainer::Start() { StartSession(std::nullopt); }

void Trainer::Die() {
  alive_ = false;
  ++session_;
}

// --- The process ------------------------------------------------------------

void Trainer::RunAwake(uint64_t session, std::function<void()> what) {
  if (!alive_ || session != session_) return;
  if (world_.now() >= stopped_until_ && waiting_.empty()) return what();
  waiting_.emplace_back(session, std::move(what));
  if (waiting_.size() == 1) AwakeAt(stopped_until_);
}

void Trainer::AwakeAt(absl::Time thaw) {
  world_.events().At(thaw, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Awake();
  });
}

// What has waited runs in its order, also if the process was stopped again.
void Trainer::Awake() {
  while (!waiting_.empty()) {
    if (world_.now() < stopped_until_) return AwakeAt(stopped_until_);
    const auto [session, what] = std::move(waiting_.front());
    waiting_.pop_front();
    if (alive_ && session == session_) what();
  }
}

void Trainer::After(absl::Duration delay, std::function<void()> what) {
  world_.events().After(delay, [weak = weak_from_this(), session = session_,
                                what = std::move(what)] {
    if (const auto self = weak.lock()) self->RunAwake(session, what);
  });
}

// The ranks see the end of a collective at different times, so the epoch may
// end when some have seen it and others have not.
DataPlane::Schedule Trainer::Scheduler() {
  return
      [weak = weak_from_this(), session = session_](std::function<void()> run) {
        const auto self = weak.lock();
        if (self == nullptr || self->session_ != session) return;
        const bool is_slow = self->world_.IsSlow(self->view().rank);
        self->After(self->world_.Draw(absl::Milliseconds(is_slow ? 80 : 3)),
                    std::move(run));
      };
}

void Trainer::Exit(bool success, const std::string& why) {
  world_.Note([&] { return absl::StrCat(name(), " exits: ", why); });
  done_ = success;
  failed_ = !success;
  Die();
  world_.Exited(this);
}

void Trainer::StartSession(std::optional<protocol::HeldState> held) {
  ++session_;
  stage_ = kBorn;
  wake_ = absl::InfiniteFuture();
  streams_.clear();
  epoch_.reset();
  recovers_ = false;
  fetching_revision_ = false;
  failed_peers_.clear();
  state_ = std::make_unique<session::StateRegistry>();
  end_ = std::make_shared<StreamEnd>(this, session_);
  incarnation_ = world_.NextIncarnation();
  machine_ = std::make_unique<session::Machine>(session::MachineOptions{
      .job = {world_.spec().name},
      .worker = {name()},
      .incarnation = incarnation_,
      .spec = world_.spec(),
      .process = {.host = "host-" + name(),
                  .pid = static_cast<int64_t>(process()),
                  .boot_id = "boot",
                  .start_time = process()},
      .held = held,
      .addresses = {"coordinator"},
      .jitter_seed = world_.Pick(1 << 20)});
  Apply(session::Begin{});
}

void Trainer::Apply(const session::Event& event) {
  const absl::Time now = options_.clock.Local(world_.now());
  const session::Effects effects = machine_->Step(now, event);
  for (const session::Effect& effect : effects) Do(effect);
  const absl::Time wake = machine_->NextWake();
  if (wake < wake_) {
    wake_ = wake;
    After(std::max(options_.clock.Simulated(wake) - world_.now(),
                   absl::ZeroDuration()),
          [this, wake] {
            if (wake != wake_) return;
            wake_ = absl::InfiniteFuture();
            Apply(session::DeadlineExpired{});
          });
  }
  Look();
}

void Trainer::Do(const session::Effect& effect) {
  world_.Note(
      [&] { return absl::StrCat(name(), ": ", session::Describe(effect)); });
  if (const auto* open = std::get_if<session::OpenStream>(&effect)) {
    streams_[open->stream] = world_.network().Open(end_, open->stream);
  } else if (const auto* send = std::get_if<session::SendOn>(&effect)) {
    const auto stream = streams_.find(send->stream);
    if (stream == streams_.end()) return;
    world_.network().ToCoordinator(stream->second, send->message);
  } else if (const auto* close = std::get_if<session::CloseStream>(&effect)) {
    const auto stream = streams_.find(close->stream);
    if (stream == streams_.end()) return;
    world_.network().CloseAtWorker(stream->second);
    streams_.erase(stream);
  }
}

void Trainer::NotePeerFailure(const std::string& peer, uint64_t process,
                              protocol::EvidenceKind kind) {
  if (view().phase > SessionPhase::kRunning) return;
  for (const protocol::Member& member : view().members.items()) {
    if (member.worker.value != peer ||
        member.process.pid != static_cast<int64_t>(process)) {
      continue;
    }
    failed_peers_.push_back({.subject = member.worker,
                             .generation = member.generation,
                             .kind = kind,
                             .detail = "simulated",
                             .process = member.process});
    return ReportPeers();
  }
}

// A death is seen by itself, a broken connection only by an operation.
void Trainer::ReportPeers() {
  if (!epoch_) return;
  const std::vector<protocol::Evidence> failed = failed_peers_;
  for (const protocol::Evidence& evidence : failed) {
    const bool is_proof = evidence.kind == protocol::EvidenceKind::kExited;
    if (!is_proof && epoch_->pending == 0) continue;
    if (view().phase > SessionPhase::kRunning || leaves_) return;
    Apply(session::PeerFailed{evidence});
    // As Session::Impl::Explain: without an answer it fences itself.
    const JobTimeouts& timeouts = world_.spec().timeouts;
    After(timeouts.lease + timeouts.resume + absl::Seconds(1), [this] {
      if (view().phase <= SessionPhase::kRunning && !leaves_) {
        FailLocally("the coordinator does not say what happened");
      }
    });
  }
}

// --- The program up to its first step ---------------------------------------

void Trainer::Once(Stage stage, void (Trainer::*act)()) {
  if (stage_ >= stage) return;
  stage_ = stage;
  After(world_.Draw(absl::Milliseconds(stage == kQuiescing ? 4 : 20)),
        [this, act] { (this->*act)(); });
}

void Trainer::Look() {
  const session::View& now = view();
  switch (now.phase) {
    case SessionPhase::kJoining: return;
    case SessionPhase::kFormed: return Once(kRegistered, &Trainer::Register);
    case SessionPhase::kPlanned: {
      Once(kFetching, &Trainer::FetchPlan);
      if (stage_ != kFetched) return;
      const auto& communicators = epoch_->plan->communicators;
      for (size_t c = 0; c < communicators.size(); ++c) {
        const std::vector<int>& ranks = communicators[c].ranks;
        const bool is_member =
            std::find(ranks.begin(), ranks.end(), now.rank) != ranks.end();
        if (is_member && now.handles.count(static_cast<int>(c)) == 0) return;
      }
      return Once(kConnecting, &Trainer::Connect);
    }
    case SessionPhase::kRunning:
      Once(kTraining, &Trainer::Resume);
      if (epoch_->next == nullptr && now.revision > epoch_->plan->revision &&
          !std::exchange(fetching_revision_, true)) {
        After(world_.Draw(absl::Milliseconds(20)), [this] { FetchRevision(); });
      }
      return;
    case SessionPhase::kEnded:
      // It waited for a rank until the job ended.
      if (now.rank < 0) {
        return Exit(absl::IsCancelled(now.status), now.status.ToString());
      }
      Once(kQuiescing, &Trainer::Quiesce);
      if (stage_ < kQuiesced || leaves_) return;
      if (!now.forgotten.ok()) return Exit(false, now.forgotten.ToString());
      if (now.recovery || now.job_over || !now.fenced.ok()) {
        Once(kLeaving, &Trainer::Recover);
      }
      return;
    case SessionPhase::kLeft:
      if (recovers_) {
        After(world_.Draw(absl::Milliseconds(5)),
              [this] { StartSession(std::exchange(held_, std::nullopt)); });
        recovers_ = false;
        return;
      }
      if (leaves_) Exit(now.leave_status.ok(), now.leave_status.ToString());
      return;
    case SessionPhase::kFailed: return Exit(false, now.status.ToString());
  }
}

void Trainer::Register() {
  if (view().phase != SessionPhase::kFormed) return;
  const auto formed =
      MeshOfWorld(world_.spec(), static_cast<int>(view().members.size()));
  if (!formed) return world_.Violated("an epoch has no mesh");
  mesh_ = *formed;
  StateSpec weights{.name = "weights", .shape = {8}};
  if (mesh_.axes.size() > 1) weights.cuts = {{.dim = 0, .axes = {"model"}}};
  const auto scoped = state_->Register(
      mesh_, {.name = "random", .dtype = DType::kI64, .shape = {}}, &scoped_);
  Check(scoped.ok() && state_->SetStepScoped(*scoped).ok() &&
            state_->Register(mesh_, weights, nullptr).ok(),
        "the state cannot be registered");
  auto chunks =
      protocol::CutIntoChunks(world_.parameters(), state_->declarations());
  Check(chunks.ok(), "the parameters cannot be registered");
  Apply(session::RegisterAll{*std::move(chunks)});
}

// As the session does: until the coordinator has the plan that it announced.
void Trainer::FetchPlan() {
  if (view().phase != SessionPhase::kPlanned) return;
  const std::string digest = view().plan_digest;
  auto plan = world_.FindPlan(digest);
  if (plan == nullptr) {
    stage_ = kRegistered;
    return Once(kFetching, &Trainer::FetchPlan);
  }
  world_.Accepted(view().epoch, plan->revision, plan::DigestOf(*plan));
  epoch_.emplace();
  epoch_->plan = plan;
  epoch_->digest = digest;
  std::vector<protocol::GroupHandle> handles;
  for (size_t c = 0; c < plan->communicators.size(); ++c) {
    const std::vector<int>& ranks = plan->communicators[c].ranks;
    if (std::find(ranks.begin(), ranks.end(), view().rank) == ranks.end())
      continue;
    handles.push_back(
        {static_cast<int>(c),
         absl::StrCat(name(), "#", process(), ".", session_, "/", c)});
  }
  stage_ = kFetched;
  const uint64_t session = session_;
  Apply(session::AcceptPlan{
      .revision = plan->revision, .digest = digest, .bytes = BytesOf(*plan)});
  if (session == session_) Apply(session::OfferHandles{std::move(handles)});
}

void Trainer::Connect() {
  if (view().phase != SessionPhase::kPlanned) return;
  Epoch& epoch = *epoch_;
  const plan::Plan& plan = *epoch.plan;
  epoch.groups.resize(plan.communicators.size());
  epoch.sequence.resize(plan.communicators.size());
  for (const auto& [c, handles] : view().handles) {
    epoch.groups[c] = absl::StrJoin(handles.items(), " ");
    ++epoch.in_flight;
  }
  const session::View now = view();
  for (const auto& [c, handles] : now.handles) {
    plan::Transfer connect{.communicator = c};
    PostTransfer(
        connect, {.operation = "connect"},
        [this](const DataPlane::Offers& offers) {
          world_.Met(offers);
          if (--epoch_->in_flight > 0) return;
          epoch_->agreement =
              std::make_unique<gradient::StepAgreement>(view().first_step);
          Check(state_->Connect(*epoch_->plan, view().rank).ok(),
                "the plan lacks state");
          Apply(session::DataPlaneConnected{});
        });
  }
}

// As StateReplicas::Resume.
void Trainer::Resume() {
  if (view().phase != SessionPhase::kRunning) return;
  const std::vector<uint32_t>& holders = view().holders;
  const auto begin = [this] {
    epoch_->resumed = true;
    world_.BeganWithState(*this);
    After(world_.Draw(absl::Milliseconds(2)), [this] { BeginStep(); });
  };
  if (holders.empty() && view().first_step == 0) return begin();
  const std::vector<int> healthy(holders.begin(), holders.end());
  std::vector<int> newcomers;
  for (int rank = 0; rank < mesh().WorldSize(); ++rank) {
    if (!std::binary_search(healthy.begin(), healthy.end(), rank)) {
      newcomers.push_back(rank);
    }
  }
  if (newcomers.empty()) return begin();
  const auto state = state_->Agreed();
  Check(state.ok(), "no state is registered");
  const auto recovery =
      plan::PlanRecovery(*state->tensors, mesh(), newcomers, healthy);
  if (healthy.empty() || !recovery.ok()) {
    ++world_.counts().restores;
    model_ = world_.checkpoint();
    next_job_step_ = view().first_step;
    scoped_ = static_cast<int64_t>(model_.size());
    state_->NoteLoaded();
    return begin();
  }
  const bool holds = std::count(healthy.begin(), healthy.end(), view().rank);
  Offer offer{.operation = "resume", .holds_state = holds};
  if (holds) offer.model = std::make_shared<Model>(model_);
  int from = healthy.front();
  for (const plan::RecoveryChunk& chunk : recovery->chunks) {
    if (chunk.to == view().rank) from = chunk.from;
  }
  PostTransfer({.communicator = 0}, std::move(offer),
               [this, holds, from, begin](const DataPlane::Offers& offers) {
                 world_.Met(offers);
                 if (!holds) TakeState(offers[from]);
                 begin();
               });
}

void Trainer::TakeState(const Offer& holder) {
  if (holder.model == nullptr) {
    return world_.Violated(absl::StrCat(
        name(), " takes the state of a rank that does not hold it"));
  }
  ++world_.counts().received;
  model_ = *holder.model;
  next_job_step_ = view().first_step;
  scoped_ = static_cast<int64_t>(model_.size());
  state_->NoteLoaded();
}

// --- Revisions --------------------------------------------------------------

void Trainer::FetchRevision() {
  fetching_revision_ = false;
  if (view().phase != SessionPhase::kRunning) return;
  const std::string digest = view().plan_digest;
  auto plan = world_.FindPlan(digest);
  if (plan == nullptr) return Look();
  world_.Accepted(view().epoch, plan->revision, plan::DigestOf(*plan));
  epoch_->next = plan;
  epoch_->next_digest = digest;
  Apply(session::AcceptPlan{plan->revision, digest, plan::OrderOf(*plan),
                            BytesOf(*plan)});
}

// All ranks see the same verdict, so all switch after the same step.
void Trainer::SwitchIfAllHold(const Verdict& verdict) {
  Epoch& epoch = *epoch_;
  if (verdict.revision_holders != verdict.world_size) return;
  if (epoch.next == nullptr) {
    return world_.Violated(
        absl::StrCat(name(), " has no revision that all ranks hold"));
  }
  epoch.plan = std::exchange(epoch.next, nullptr);
  epoch.digest = epoch.next_digest;
  ++world_.counts().switched;
}

}  // namespace lockstep::sim
