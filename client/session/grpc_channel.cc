#include "client/session/grpc_channel.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/mutex.h"
#include "client/session/grpc_stream.h"
#include "lockstep/v1/session.grpc.pb.h"
#include "proto/plan_chunks.h"

namespace lockstep::session {
namespace {

// Members and handles of 10,000 ranks take about 2 MB.
constexpr int kReceivedBytesMax = 64 << 20;

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 300);
  // A coordinator on a host that is gone, or stopped, is left for the next one.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 3'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 3'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(kReceivedBytesMax);
  return arguments;
}

// Fetches in progress: the channel's destructor waits for them.
class Fetches {
 public:
  void Begin(grpc::ClientContext* context) {
    MutexLock lock(&mutex_);
    ++running_;
    cancellable_.insert(context);
  }
  // Call before `context` is destroyed.
  void Forget(grpc::ClientContext* context) {
    MutexLock lock(&mutex_);
    cancellable_.erase(context);
  }
  void End() {
    MutexLock lock(&mutex_);
    --running_;
    changed_.NotifyAll();
  }

  void CancelAndWait() {
    MutexLock lock(&mutex_);
    for (grpc::ClientContext* context : cancellable_) context->TryCancel();
    while (running_ > 0) changed_.Wait(&mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<grpc::ClientContext*> cancellable_ ABSL_GUARDED_BY(mutex_);
};

// One FetchPlan; deletes itself when it is done.
class Fetch : private grpc::ClientReadReactor<v1::PlanChunk> {
 public:
  static void Start(v1::Coordinator::StubInterface* stub, Fetches* fetches,
                    const PlanRequest& request, absl::Duration timeout,
                    ControlChannel::PlanCallback done) {
    auto* fetch = new Fetch(fetches, std::move(done));
    fetch->context_->set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    *fetch->request_.mutable_header() =
        proto::ToProto(proto::Header{.job = request.job});
    fetch->request_.set_digest(request.digest);
    fetch->request_.set_token(request.token);
    fetches->Begin(fetch->context_.get());
    stub->async()->FetchPlan(fetch->context_.get(), &fetch->request_, fetch);
    fetch->StartRead(&fetch->chunk_);
    fetch->StartCall();
  }

 private:
  Fetch(Fetches* fetches, ControlChannel::PlanCallback done)
      : fetches_(fetches), done_(std::move(done)) {}

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (assembled_.ok()) assembled_ = assembler_.Add(chunk_);
    if (!assembled_.ok()) context_->TryCancel();
    StartRead(&chunk_);
  }

  void OnDone(const grpc::Status& status) override {
    // This must release the connection before the channel is destroyed
    // (grpc_stream.h).
    fetches_->Forget(context_.get());
    context_.reset();
    done_(Result(status));
    fetches_->End();
    delete this;
  }

  absl::StatusOr<FetchedPlan> Result(const grpc::Status& status) {
    if (!assembled_.ok()) return absl::DataLossError(assembled_.message());
    if (!status.ok()) return ToAbsl(status);
    auto plan = assembler_.Finish();
    if (!plan.ok()) return absl::DataLossError(plan.status().message());
    return FetchedPlan{*std::move(plan), std::make_shared<const std::string>(
                                             assembler_.TakeBytes())};
  }

  Fetches* const fetches_;
  const ControlChannel::PlanCallback done_;
  std::unique_ptr<grpc::ClientContext> context_ =
      std::make_unique<grpc::ClientContext>();
  v1::FetchPlanRequest request_;
  v1::PlanChunk chunk_;
  proto::PlanAssembler assembler_;
  absl::Status assembled_;
};

// The session's handle of a stream.
class StreamHandle : public ControlStream {
 public:
  explicit StreamHandle(std::shared_ptr<GrpcStream> stream)
      : stream_(std::move(stream)) {}
  void Send(const protocol::ToCoordinator& message) override {
    stream_->Send(message);
  }
  void Cancel() override { stream_->Cancel(); }

 private:
  const std::shared_ptr<GrpcStream> stream_;
};

class GrpcChannel : public ControlChannel {
 public:
  GrpcChannel(std::string address,
              std::shared_ptr<proto::ClientCredentials> credentials)
      : address_(std::move(address)), credentials_(std::move(credentials)) {}
  ~GrpcChannel() override { fetches_.CancelAndWait(); }

  // The session waits between attempts itself, by a monotonic clock. gRPC's
  // wait is one until a time of the wall clock: after that was set back an
  // hour, a channel whose connection failed would not try again for an hour.
  std::unique_ptr<ControlStream> Open(StreamHandler* handler) override {
    const Line& line = CurrentLine();
    grpc::experimental::ChannelResetConnectionBackoff(line.channel.get());
    return std::make_unique<StreamHandle>(
        GrpcStream::Start(line.stub.get(), handler));
  }

  void FetchPlan(const PlanRequest& request, absl::Duration timeout,
                 PlanCallback done) override {
    Fetch::Start(LastLine().stub.get(), &fetches_, request, timeout,
                 std::move(done));
  }

 private:
  struct Line {
    std::shared_ptr<grpc::ChannelCredentials> credentials;
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<v1::Coordinator::Stub> stub;
  };

  const Line& CurrentLine() {
    auto credentials = credentials_->Current();
    MutexLock lock(&mutex_);
    if (lines_.empty() || lines_.back()->credentials != credentials) {
      AddLine(std::move(credentials));
    }
    return *lines_.back();
  }

  const Line& LastLine() {
    MutexLock lock(&mutex_);
    if (lines_.empty()) AddLine(credentials_->Current());
    return *lines_.back();
  }

  void AddLine(std::shared_ptr<grpc::ChannelCredentials> credentials)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    auto channel =
        grpc::CreateCustomChannel(address_, credentials, Arguments());
    auto stub = v1::Coordinator::NewStub(channel);
    lines_.push_back(std::make_unique<const Line>(
        Line{std::move(credentials), std::move(channel), std::move(stub)}));
  }

  const std::string address_;
  const std::shared_ptr<proto::ClientCredentials> credentials_;
  Mutex mutex_;
  // One for each change of the certificates that a stream has met. They are
  // kept: a gRPC thread must not release a channel last (grpc_stream.h).
  std::vector<std::unique_ptr<const Line>> lines_ ABSL_GUARDED_BY(mutex_);
  Fetches fetches_;
};

absl::Status CheckAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon != std::string::npos && colon > 0 &&
      absl::SimpleAtoi(address.substr(colon + 1), &port) && port > 0 &&
      port < 65536) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", address, "' is not an address of the form HOST:PORT"));
}

class GrpcChannels : public ChannelFactory {
 public:
  explicit GrpcChannels(std::unique_ptr<proto::ClientCredentials> credentials)
      : credentials_(std::move(credentials)) {}

  absl::StatusOr<std::unique_ptr<ControlChannel>> Make(
      const std::string& address) override {
    if (absl::Status ok = CheckAddress(address); !ok.ok()) return ok;
    return std::make_unique<GrpcChannel>(address, credentials_);
  }

 private:
  const std::shared_ptr<proto::ClientCredentials> credentials_;
};

}  // namespace

std::unique_ptr<ChannelFactory> MakeGrpcChannels(
    std::unique_ptr<proto::ClientCredentials> credentials) {
  return std::make_unique<GrpcChannels>(std::move(credentials));
}

}  // namespace lockstep::session
