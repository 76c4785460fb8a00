#include <memory>
#include <string>
#include <utility>

#include "plan/digest.h"
#include "tests/client/session/describe.h"
#include "tests/sim/session_world.h"
#include "tests/support/plans_as_text.h"

namespace lockstep::sim {

using session::SessionPhase;

// The stages of an incarnation's program, in order.
enum Stage { kBorn, kRegistered, kFetching, kConnecting, kTraining, kLeaving };

void SimWorker::StartLife() {
  ++incarnation_;
  life_ = ++world_->last_life_;
  stage_ = kBorn;
  step_ = 0;
  wake_ = absl::InfiniteFuture();
  pulses_.clear();
  machine_ = std::make_unique<session::Machine>(
      session::MachineOptions{.job = {"job"},
                              .worker = {name_},
                              .incarnation = life_,
                              .spec = world_->spec_,
                              .process = {"host-" + name_, 1, "boot"},
                              .addresses = {"coordinator"},
                              .jitter_seed = world_->random_()});
  Apply(session::Begin{});
}

void SimWorker::Crash() {
  world_->Note(name_ + " CRASHES");
  ++incarnation_;
  machine_.reset();
  for (const auto& [number, stream] : std::exchange(streams_, {})) {
    world_->streams_.at(stream).worker_end = false;
    world_->Cut(stream);
  }
}

void SimWorker::Apply(const session::Event& event) {
  const absl::Time now = world_->now();
  const session::Effects effects = machine_->Step(now, event);
  for (const session::Effect& effect : effects) Do(effect);
  const absl::Time wake = machine_->NextWake();
  if (wake < wake_) {
    wake_ = wake;
    world_->events_.At(wake, [this, wake, incarnation = incarnation_] {
      if (incarnation != incarnation_ || wake != wake_) return;
      wake_ = absl::InfiniteFuture();
      Apply(session::DeadlineExpired{});
    });
  }
  Live();
}

void SimWorker::Do(const session::Effect& effect) {
  world_->Note(name_ + ": " + session::Describe(effect));
  if (const auto* open = std::get_if<session::OpenStream>(&effect)) {
    world_->Open(this, open->stream);
  } else if (const auto* send = std::get_if<session::SendOn>(&effect)) {
    const auto& body = send->message.body;
    if (std::holds_alternative<protocol::Progress>(body) &&
        view().phase == SessionPhase::kRunning) {
      pulses_.push_back(world_->now());
    }
    const auto stream = streams_.find(send->stream);
    if (stream != streams_.end()) {
      world_->ToCoordinator(stream->second, send->message);
    }
  } else if (const auto* close = std::get_if<session::CloseStream>(&effect)) {
    const auto stream = streams_.find(close->stream);
    if (stream == streams_.end()) return;
    world_->streams_.at(stream->second).worker_end = false;
    world_->EndAtCoordinator(stream->second);
    streams_.erase(stream);
  }
}

// --- The program ------------------------------------------------------------

void SimWorker::Once(int stage, std::function<void()> act) {
  if (stage_ >= stage) return;
  stage_ = stage;
  world_->events_.After(world_->Draw(absl::Milliseconds(30)),
                        [this, incarnation = incarnation_, act] {
                          if (incarnation == incarnation_) act();
                        });
}

void SimWorker::Live() {
  switch (view().phase) {
    case SessionPhase::kJoining: return;
    case SessionPhase::kFormed: return Once(kRegistered, [&] { Register(); });
    case SessionPhase::kPlanned:
      Once(kFetching, [&] { FetchPlan(); });
      if (stage_ == kFetching && !view().handles.empty()) {
        Once(kConnecting, [&] { ConnectData(); });
      }
      return;
    case SessionPhase::kRunning: return Once(kTraining, [&] { Train(); });
    case SessionPhase::kEnded:
      return Once(kLeaving, [&] {
        Apply(session::Quiesced{{{JobStep(), protocol::Phase::kIdle}, ""}});
        Apply(session::LeaveNow{{.clean = false, .steps = JobStep()}});
      });
    case SessionPhase::kLeft:
    case SessionPhase::kFailed: return EndLife();
  }
}

void SimWorker::Register() {
  Parameter parameter{.name = "w", .shape = {8}};
  if (registers_otherwise) parameter.shape = {9};
  Apply(session::RegisterAll{
      {{.index = 0, .parameters = {parameter}}, {.index = 1, .last = true}}});
}

// As the session does: until the coordinator has the plan that it announced.
void SimWorker::FetchPlan() {
  if (view().phase != SessionPhase::kPlanned) return;
  const std::string digest = view().plan_digest;
  const auto plan = world_->coordinator_ == nullptr
                        ? nullptr
                        : world_->coordinator_->FindPlan({"job"}, digest);
  if (plan == nullptr) {
    stage_ = kRegistered;
    return Once(kFetching, [&] { FetchPlan(); });
  }
  std::vector<protocol::GroupHandle> handles;
  for (size_t c = 0; c < plan->communicators.size(); ++c) {
    handles.push_back({static_cast<int>(c), name_});
  }
  const uint64_t incarnation = incarnation_;
  Apply(session::AcceptPlan{.revision = plan->revision,
                            .digest = digest,
                            .bytes = std::make_shared<const std::string>(
                                PlansAsText().bytes(*plan))});
  if (incarnation != incarnation_) return;
  Apply(session::OfferHandles{std::move(handles)});
}

void SimWorker::ConnectData() { Apply(session::DataPlaneConnected{}); }

void SimWorker::Train() {
  if (view().phase != SessionPhase::kRunning) return;
  if (step_ == SessionWorld::kSteps) {
    trained_all_ = true;
    return Apply(session::LeaveNow{{.clean = true, .steps = JobStep()}});
  }
  if (fails_locally && step_ == SessionWorld::kSteps / 2) {
    return Apply(session::FailLocally{
        {JobStep(), "Train", absl::StatusCode::kInternal, "loss is NaN"}});
  }
  const uint64_t incarnation = incarnation_;
  Apply(session::Moved{{.position = {JobStep(), protocol::Phase::kCompute}}});
  if (incarnation != incarnation_) return;
  world_->events_.After(world_->ComputeTime(), [this, incarnation] {
    if (incarnation == incarnation_) {
      world_->ArriveAtStep(this);
    }
  });
}

void SimWorker::PassStep() {
  ++step_;
  Train();
}

void SimWorker::EndLife() {
  ++incarnation_;  // cancels this incarnation's events
  const bool again =
      view().phase == SessionPhase::kLeft && !trained_all_ && !view().job_over;
  world_->Note(name_ + " is at its end: " + view().status.ToString());
  if (!again) {
    done_ = true;
    return;
  }
  world_->events_.After(world_->Draw(absl::Milliseconds(200)),
                        [this, incarnation = incarnation_] {
                          if (incarnation == incarnation_) StartLife();
                        });
}

}  // namespace lockstep::sim
