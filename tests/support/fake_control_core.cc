#include "tests/support/fake_control_core.h"

#include <future>
#include <utility>

#include "tests/support/plans_as_text.h"

namespace lockstep::session {

CoreServer::CoreServer(Clock* clock)
    : clock_(clock),
      loop_("ls-core", clock),
      wake_(&loop_, [this] { Apply(core::TimerExpired{}); }) {
  OnLoop([this] { Start(); });
}

CoreServer::~CoreServer() { loop_.Stop(); }

void CoreServer::OnLoop(const std::function<void()>& task) {
  std::promise<void> done;
  loop_.Post([&] {
    task();
    done.set_value();
  });
  done.get_future().wait();
}

void CoreServer::Start() {
  ++incarnations_;
  core_ = std::make_unique<core::Coordinator>(core::CoordinatorOptions{});
  for (const record::Record& record : records_) {
    Check(core_->Replay(record).ok(), "the journal does not replay");
  }
  Apply(core::TimerExpired{});
}

// --- Faults -----------------------------------------------------------------

void CoreServer::Crash() {
  {
    MutexLock lock(&mutex_);
    up_ = false;
  }
  OnLoop([this] {
    core_.reset();
    wake_.Clear();
    BreakStreams(absl::UnavailableError("the coordinator crashed"));
    ids_.clear();
    streams_.clear();
  });
}

void CoreServer::Restart() {
  OnLoop([this] { Start(); });
  MutexLock lock(&mutex_);
  up_ = true;
}

void CoreServer::CutStreams() {
  OnLoop([this] {
    BreakStreams(absl::UnavailableError("cut"));
    const auto cut = streams_;
    for (const auto& [id, stream] : cut) Gone(stream);
  });
}

void CoreServer::BreakStreams(const absl::Status& status) {
  for (const auto& [id, stream] : streams_) stream->Close(status);
}

int CoreServer::streams() {
  size_t count = 0;
  OnLoop([&] { count = streams_.size(); });
  return static_cast<int>(count);
}

// --- Queries ----------------------------------------------------------------

absl::Status CoreServer::Ask(
    const std::function<core::Event(core::RequestId)>& question) {
  absl::Status answer;
  OnLoop([&] {
    const core::RequestId request{++last_id_};
    Apply(question(request));
    const auto found = answers_.extract(request);
    Check(!found.empty(), "the core did not answer");
    answer = found.mapped();
  });
  return answer;
}

absl::StatusOr<JobView> CoreServer::Describe(const std::string& job) {
  absl::StatusOr<JobView> view = absl::UnavailableError("crashed");
  OnLoop([&] {
    if (core_ != nullptr) view = core_->Describe({job}, clock_->Now());
  });
  return view;
}

absl::StatusOr<plan::Plan> CoreServer::Fetch(const PlanRequest& request) {
  absl::StatusOr<plan::Plan> plan = absl::UnavailableError("crashed");
  OnLoop([&] {
    if (core_ == nullptr) return;
    const absl::Status may = core_->Authorize(request.job, request.token);
    const auto found = core_->FindPlan(request.job, request.digest);
    if (!may.ok()) {
      plan = may;
    } else if (found == nullptr) {
      plan = absl::NotFoundError("no such plan");
    } else {
      plan = *found;
    }
  });
  return plan;
}

// --- Streams ----------------------------------------------------------------

absl::Status CoreServer::Accept(const std::string&) {
  MutexLock lock(&mutex_);
  return up_ ? absl::OkStatus() : absl::UnavailableError("connection refused");
}

void CoreServer::Opened(std::shared_ptr<FakeStream> stream) {
  loop_.Post([this, stream = std::move(stream)] {
    if (core_ == nullptr) {
      stream->Close(absl::UnavailableError("the coordinator crashed"));
      return;
    }
    const core::SessionId id{++last_id_};
    ids_[stream] = id;
    streams_[id] = stream;
  });
}

void CoreServer::Received(const std::shared_ptr<FakeStream>& stream,
                          const protocol::ToCoordinator& message) {
  loop_.Post([this, stream, message] {
    const auto id = ids_.find(stream);
    if (id != ids_.end()) Apply(core::MessageReceived{id->second, message});
  });
}

void CoreServer::Cancelled(const std::shared_ptr<FakeStream>& stream) {
  loop_.Post([this, stream] { Gone(stream); });
}

void CoreServer::Gone(const std::shared_ptr<FakeStream>& stream) {
  const auto id = ids_.find(stream);
  if (id == ids_.end()) return;
  const core::SessionId session = id->second;
  ids_.erase(id);
  streams_.erase(session);
  Apply(core::SessionClosed{session, "the stream broke"});
}

// --- The core ---------------------------------------------------------------

void CoreServer::Apply(const core::Event& event) {
  if (core_ == nullptr) return;
  for (const core::Effect& effect : core_->Step(clock_->Now(), event)) {
    Do(effect);
  }
  wake_.Set(core_->NextWake());
}

void CoreServer::Do(const core::Effect& effect) {
  if (const auto* send = std::get_if<core::Send>(&effect)) {
    const auto stream = streams_.find(send->session);
    if (stream != streams_.end()) stream->second->Post(send->message);
  } else if (const auto* close = std::get_if<core::CloseSession>(&effect)) {
    const auto found = streams_.extract(close->session);
    if (found.empty()) return;
    ids_.erase(found.mapped());
    found.mapped()->Close(close->status);
  } else if (const auto* persist = std::get_if<core::Persist>(&effect)) {
    records_.push_back(persist->record);
  } else if (const auto* compile = std::get_if<core::Compile>(&effect)) {
    loop_.Post([this, compile = *compile, incarnation = incarnations_] {
      if (incarnation != incarnations_) return;  // the core has crashed since
      Apply(core::Compiled{compile.id, compile.job,
                           core::MakePlan(*compile.input, PlansAsText())});
    });
  } else if (const auto* answer = std::get_if<core::AdminReply>(&effect)) {
    answers_[answer->request] = answer->status;
  }
}

}  // namespace lockstep::session
