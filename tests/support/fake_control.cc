#include "tests/support/fake_control.h"

#include "absl/time/time.h"
#include "plan/plan_json.h"

namespace lockstep::session {

// --- Streams ----------------------------------------------------------------

void FakeStream::Post(protocol::ToWorker message) {
  MutexLock lock(&mutex_);
  if (handler_ != nullptr) handler_->OnMessage(std::move(message));
}

void FakeStream::SayOpened() {
  MutexLock lock(&mutex_);
  if (handler_ != nullptr) handler_->OnOpened();
}

bool FakeStream::Close(const absl::Status& status) {
  MutexLock lock(&mutex_);
  if (handler_ == nullptr) return false;
  std::exchange(handler_, nullptr)->OnClosed(status);
  return true;
}

namespace {

// The worker's end of a stream.
class WorkersEnd : public ControlStream {
 public:
  WorkersEnd(std::shared_ptr<FakeStream> stream, FakeServer* server)
      : stream_(std::move(stream)), server_(server) {}

  void Send(const protocol::ToCoordinator& message) override {
    server_->Received(stream_, message);
  }
  void Cancel() override {
    if (stream_->Close(absl::CancelledError("by the worker"))) {
      server_->Cancelled(stream_);
    }
  }

 private:
  const std::shared_ptr<FakeStream> stream_;
  FakeServer* const server_;
};

}  // namespace

class FakeChannel : public ControlChannel {
 public:
  FakeChannel(std::string address, FakeServer* server)
      : address_(std::move(address)), server_(server) {}

  std::unique_ptr<ControlStream> Open(StreamHandler* handler) override {
    auto stream = std::make_shared<FakeStream>(address_, handler);
    auto end = std::make_unique<WorkersEnd>(stream, server_);
    const absl::Status accepted = server_->Accept(address_);
    if (accepted.ok()) {
      server_->Opened(stream);
      stream->SayOpened();
    } else {
      stream->Close(accepted);
    }
    return end;
  }

  void FetchPlan(const PlanRequest& request, absl::Duration,
                 PlanCallback done) override {
    auto plan = server_->Fetch(request);
    if (!plan.ok()) return done(plan.status());
    auto bytes = std::make_shared<const std::string>(plan::PlanToJson(*plan));
    done(FetchedPlan{*std::move(plan), std::move(bytes)});
  }

 private:
  const std::string address_;
  FakeServer* const server_;
};

namespace {

class FakeChannelFactory : public ChannelFactory {
 public:
  explicit FakeChannelFactory(FakeServer* server) : server_(server) {}
  absl::StatusOr<std::unique_ptr<ControlChannel>> Make(
      const std::string& address) override {
    if (address == "malformed") {
      return absl::InvalidArgumentError("malformed is no HOST:PORT");
    }
    return std::make_unique<FakeChannel>(address, server_);
  }

 private:
  FakeServer* const server_;
};

}  // namespace

std::unique_ptr<ChannelFactory> MakeFakeChannels(FakeServer* server) {
  return std::make_unique<FakeChannelFactory>(server);
}

// --- A scripted server ------------------------------------------------------

PlayedServer::Said PlayedServer::Next() {
  MutexLock lock(&mutex_);
  while (said_.empty()) {
    Check(changed_.WaitFor(&mutex_, absl::Minutes(1)),
          "no worker said anything for a minute");
  }
  Said said = std::move(said_.front());
  said_.pop_front();
  return said;
}

bool PlayedServer::IsPulse(const protocol::ToCoordinator& message) {
  return std::holds_alternative<protocol::Heartbeat>(message.body) ||
         std::holds_alternative<protocol::Progress>(message.body);
}

void PlayedServer::SetAccept(const absl::Status& status) {
  MutexLock lock(&mutex_);
  accept_ = status;
}

void PlayedServer::SetPlan(const absl::StatusOr<plan::Plan>& plan) {
  MutexLock lock(&mutex_);
  plan_ = plan;
}

int PlayedServer::fetches() {
  MutexLock lock(&mutex_);
  return fetches_;
}

absl::Status PlayedServer::Accept(const std::string&) {
  MutexLock lock(&mutex_);
  return accept_;
}

void PlayedServer::Received(const std::shared_ptr<FakeStream>& stream,
                            const protocol::ToCoordinator& message) {
  MutexLock lock(&mutex_);
  said_.push_back({stream, message});
  changed_.NotifyAll();
}

absl::StatusOr<plan::Plan> PlayedServer::Fetch(const PlanRequest&) {
  MutexLock lock(&mutex_);
  ++fetches_;
  return plan_;
}

}  // namespace lockstep::session
