// The channel seam over gRPC, against a service that a test scripts.

#include "client/session/grpc_channel.h"

#include <grpcpp/grpcpp.h>

#include <functional>
#include <future>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/v1/session.grpc.pb.h"
#include "plan/compile.h"
#include "proto/codec.h"
#include "proto/plan_chunks.h"

namespace lockstep::session {
namespace {

using testing::HasSubstr;

// Synchronous, so that a test is sequential code.
class ScriptedService : public v1::Coordinator::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::ToWorker, v1::ToCoordinator>;
  std::function<grpc::Status(Stream*)> session = [](Stream*) {
    return grpc::Status::OK;
  };
  std::function<grpc::Status(grpc::ServerWriter<v1::PlanChunk>*,
                             grpc::ServerContext*)>
      fetch;

 private:
  grpc::Status Session(grpc::ServerContext*, Stream* stream) override {
    return session(stream);
  }
  grpc::Status FetchPlan(grpc::ServerContext* context,
                         const v1::FetchPlanRequest*,
                         grpc::ServerWriter<v1::PlanChunk>* out) override {
    return fetch(out, context);
  }
};

// A stream's messages and final status, once it has ended.
class Recorder : public StreamHandler {
 public:
  void OnOpened() override { opened.set_value(); }
  void OnMessage(protocol::ToWorker message) override {
    messages.push_back(std::move(message));
  }
  void OnClosed(absl::Status status) override { closed.set_value(status); }

  std::promise<void> opened;
  std::vector<protocol::ToWorker> messages;
  std::promise<absl::Status> closed;
};

class GrpcChannelTest : public testing::Test {
 protected:
  void Serve() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    channel_ = *channels_->Make("127.0.0.1:" + std::to_string(port));
  }

  absl::StatusOr<FetchedPlan> Fetch(
      absl::Duration timeout = absl::Seconds(60)) {
    std::promise<absl::StatusOr<FetchedPlan>> answer;
    channel_->FetchPlan({{"job"}, "digest", "token"}, timeout,
                        [&](auto plan) { answer.set_value(std::move(plan)); });
    return answer.get_future().get();
  }

  static plan::Plan SomePlan() {
    return *plan::Compile({.mesh = {{{"data", 1}}},
                           .registrations = {{{.name = "w", .shape = {4}}}}});
  }

  static protocol::ToCoordinator Post(protocol::ToCoordinatorBody body) {
    return {.job = {"job"}, .body = std::move(body)};
  }

  ScriptedService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ChannelFactory> channels_ =
      MakeGrpcChannels(*proto::ClientCredentials::Make("", {}));
  std::unique_ptr<ControlChannel> channel_;
};

TEST_F(GrpcChannelTest, CarriesMessagesInOrderAndThenTheStatus) {
  std::vector<std::string> heard;
  service_.session = [&](auto* stream) {
    v1::ToCoordinator message;
    for (int i = 0; i < 100; ++i) {
      stream->Read(&message);
      heard.push_back(message.plan_ack().digest());
      protocol::ToWorker answer{
          .job = {"job"},
          .body = protocol::PlanReady{{1}, message.plan_ack().digest()}};
      stream->Write(proto::ToProto(answer));
    }
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "going down");
  };
  Serve();
  Recorder recorder;
  auto stream = channel_->Open(&recorder);
  std::vector<std::string> said;
  for (int i = 0; i < 100; ++i) {
    said.push_back(std::to_string(i));
    stream->Send(Post(protocol::PlanAck{{1}, said.back()}));
  }
  EXPECT_EQ(recorder.closed.get_future().get(),
            absl::UnavailableError("going down"));
  EXPECT_EQ(heard, said);
  ASSERT_EQ(recorder.messages.size(), 100u);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(std::get<protocol::PlanReady>(recorder.messages[i].body).digest,
              said[i]);
  }
  stream->Send(Post(protocol::Heartbeat{}));  // is dropped
  stream->Cancel();
}

TEST_F(GrpcChannelTest, AStreamToNobodyClosesAsUnavailable) {
  Serve();
  server_.reset();
  Recorder recorder;
  auto stream = channel_->Open(&recorder);
  stream->Send(Post(protocol::Heartbeat{}));
  EXPECT_EQ(recorder.closed.get_future().get().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(GrpcChannelTest, ACancelledStreamCloses) {
  service_.session = [](auto* stream) {
    v1::ToCoordinator message;
    while (stream->Read(&message)) {
    }
    return grpc::Status::OK;
  };
  Serve();
  Recorder recorder;
  auto stream = channel_->Open(&recorder);
  recorder.opened.get_future().get();
  stream->Cancel();
  EXPECT_EQ(recorder.closed.get_future().get().code(),
            absl::StatusCode::kCancelled);
}

TEST_F(GrpcChannelTest, WordsThatCannotBeUnderstoodEndTheStream) {
  service_.session = [](auto* stream) {
    stream->Write(v1::ToWorker{});  // no body
    v1::ToCoordinator message;
    while (stream->Read(&message)) {
    }
    return grpc::Status::OK;
  };
  Serve();
  Recorder recorder;
  auto stream = channel_->Open(&recorder);
  const absl::Status status = recorder.closed.get_future().get();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("cannot be understood"));
  EXPECT_TRUE(recorder.messages.empty());
}

TEST_F(GrpcChannelTest, ACoordinatorThatDoesNotReadGetsOnlyTheNewestProgress) {
  std::promise<void> read_on;
  std::vector<uint64_t> steps;
  service_.session = [&](auto* stream) {
    read_on.get_future().wait();
    v1::ToCoordinator message;
    while (stream->Read(&message) && message.has_progress()) {
      steps.push_back(message.progress().position().step());
    }
    return grpc::Status::OK;
  };
  Serve();
  Recorder recorder;
  auto stream = channel_->Open(&recorder);
  // Far more than a connection's flow-control windows.
  const std::vector<std::string> names(8, std::string(1000, 'x'));
  constexpr uint64_t kSteps = 2000;
  for (uint64_t step = 1; step <= kSteps; ++step) {
    stream->Send(
        Post(protocol::Progress{.position = {step}, .missing = names}));
  }
  stream->Send(Post(protocol::Connected{}));
  read_on.set_value();
  EXPECT_TRUE(recorder.closed.get_future().get().ok());
  EXPECT_LT(steps.size(), kSteps / 2);
  EXPECT_EQ(steps.back(), kSteps);
}

TEST_F(GrpcChannelTest, FetchesAPlanInPieces) {
  service_.fetch = [](auto* out, auto*) {
    const std::string bytes = proto::PlanBytes(SomePlan());
    for (size_t offset = 0; offset < bytes.size();) {
      const auto chunk = proto::PlanChunkAt({}, bytes, offset, 16);
      offset += chunk.data().size();
      out->Write(chunk);
    }
    return grpc::Status::OK;
  };
  Serve();
  const auto fetched = Fetch();
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(fetched->plan, SomePlan());
  EXPECT_EQ(*fetched->bytes, proto::PlanBytes(SomePlan()));
}

TEST_F(GrpcChannelTest, APlanWithAHoleIsDataLoss) {
  service_.fetch = [](auto* out, auto*) {
    out->Write(proto::PlanChunkAt({}, proto::PlanBytes(SomePlan()), 0, 16));
    return grpc::Status::OK;
  };
  Serve();
  EXPECT_EQ(Fetch().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(GrpcChannelTest, APieceThatDoesNotFollowIsDataLoss) {
  service_.fetch = [](auto* out, auto* context) {
    out->Write(proto::PlanChunkAt({}, proto::PlanBytes(SomePlan()), 16, 16));
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::OK;
  };
  Serve();
  EXPECT_EQ(Fetch().status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(GrpcChannelTest, NoSuchPlanIsNotFound) {
  service_.fetch = [](auto*, auto*) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such plan");
  };
  Serve();
  EXPECT_EQ(Fetch().status(), absl::NotFoundError("no such plan"));
}

TEST_F(GrpcChannelTest, AFetchThatTakesTooLongIsGivenUp) {
  service_.fetch = [](auto*, auto* context) {
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::OK;
  };
  Serve();
  EXPECT_EQ(Fetch(absl::Milliseconds(50)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(GrpcChannelTest, AChannelThatGoesAnswersItsFetches) {
  service_.fetch = [](auto*, auto* context) {
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status::OK;
  };
  Serve();
  absl::Status answer;
  channel_->FetchPlan({{"job"}, "digest", ""}, absl::Hours(1),
                      [&](auto plan) { answer = plan.status(); });
  channel_.reset();
  EXPECT_EQ(answer.code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace lockstep::session
