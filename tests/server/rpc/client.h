// A client of generated stubs and raw bytes only, for valid and invalid
// requests.

#ifndef LOCKSTEP_TESTS_SERVER_RPC_CLIENT_H_
#define LOCKSTEP_TESTS_SERVER_RPC_CLIENT_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "lockstep/v1/admin.grpc.pb.h"
#include "lockstep/v1/session.grpc.pb.h"
#include "proto/codec.h"
#include "proto/plan_chunks.h"
#include "tests/server/scripted_worker.h"

namespace lockstep::rpc {

// Sets the deadline of every call of a test, so that a hanging server fails it.
inline void SetDeadline(grpc::ClientContext* call) {
  call->set_deadline(std::chrono::system_clock::now() +
                     std::chrono::seconds(60));
}

inline absl::Status ToAbsl(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

inline std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

// One Session stream.
class StreamLine final : public WorkerLine {
 public:
  explicit StreamLine(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(v1::Coordinator::NewStub(channel)) {
    SetDeadline(&call_);
    stream_ = stub_->Session(&call_);
  }

  // False once the stream has ended.
  bool Write(const v1::ToCoordinator& message) {
    return stream_->Write(message);
  }
  std::optional<protocol::ToWorker> Read() {
    v1::ToWorker message;
    if (!stream_->Read(&message)) return std::nullopt;
    auto word = proto::FromProto(message);
    EXPECT_TRUE(word.ok()) << word.status();
    return *std::move(word);
  }
  void Post(const protocol::ToCoordinator& message) override {
    EXPECT_TRUE(Write(proto::ToProto(message)));
  }
  protocol::ToWorker Receive() override {
    auto message = Read();
    if (message) return *std::move(message);
    ADD_FAILURE() << "the stream ended: " << Finish();
    return {};
  }

  void WritesDone() { stream_->WritesDone(); }
  void Cancel() { call_.TryCancel(); }
  // Reads the remaining messages, and returns the stream's status.
  absl::Status Finish() {
    v1::ToWorker left_over;
    while (stream_->Read(&left_over)) {
    }
    return ToAbsl(stream_->Finish());
  }

 private:
  const std::unique_ptr<v1::Coordinator::Stub> stub_;
  grpc::ClientContext call_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::ToCoordinator, v1::ToWorker>>
      stream_;
};

inline absl::StatusOr<plan::Plan> Fetch(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& job,
    const std::string& digest, const std::string& token = "") {
  const auto stub = v1::Coordinator::NewStub(channel);
  v1::FetchPlanRequest request;
  *request.mutable_header() = ToProto(proto::Header{.job = {job}});
  request.set_digest(digest);
  request.set_token(token);
  grpc::ClientContext call;
  SetDeadline(&call);
  auto stream = stub->FetchPlan(&call, request);
  proto::PlanAssembler assembler;
  v1::PlanChunk chunk;
  while (stream->Read(&chunk)) {
    EXPECT_LT(chunk.ByteSizeLong(), size_t{1} << 20);
    EXPECT_TRUE(assembler.Add(chunk).ok());
  }
  const absl::Status status = ToAbsl(stream->Finish());
  if (!status.ok()) return status;
  return assembler.Finish();
}

// Takes the workers of one job from Hello to Start.
inline void JoinAndStart(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& job,
    std::vector<ScriptedWorker>* workers,
    const std::vector<protocol::RegisterChunk>& parameters = {
        {.last = true, .parameters = {{.name = "w", .shape = {4}}}}}) {
  for (auto& worker : *workers) worker.PostHello();
  for (auto& worker : *workers) worker.Register(parameters);
  for (auto& worker : *workers) {
    const auto plan = Fetch(channel, job, worker.AwaitPlan());
    ASSERT_TRUE(plan.ok()) << plan.status();
    worker.Publish(*plan);
  }
  for (auto& worker : *workers) worker.Connect();
  for (auto& worker : *workers) worker.AwaitStart();
}

// A unary call of any method, with the messages as bytes.
inline absl::StatusOr<std::string> CallWithBuffer(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
    const grpc::ByteBuffer& request) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext call;
  SetDeadline(&call);
  grpc::CompletionQueue queue;
  auto reader = stub.PrepareUnaryCall(&call, method, request, &queue);
  reader->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  reader->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  EXPECT_TRUE(queue.Next(&tag, &ok));
  if (!status.ok()) return ToAbsl(status);
  grpc::Slice bytes;
  if (response.Length() == 0) return std::string();
  EXPECT_TRUE(response.DumpToSingleSlice(&bytes).ok());
  return std::string(reinterpret_cast<const char*>(bytes.begin()),
                     bytes.size());
}

inline absl::StatusOr<std::string> CallWithBytes(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
    const std::string& request) {
  const grpc::Slice slice(request);
  return CallWithBuffer(channel, method, grpc::ByteBuffer(&slice, 1));
}

// A message of any type, with so many bytes in an unknown field.
inline std::string LargeMessage(size_t bytes) {
  std::string message = "\xA2\x06";  // field 100, which has a length
  for (size_t rest = bytes; rest > 0; rest >>= 7) {
    message += static_cast<char>((rest & 0x7F) | (rest > 0x7F ? 0x80 : 0));
  }
  return message + std::string(bytes, 'x');
}

// grpc.health.v1: field 1 of the request is the service; of the reply, the
// status.
inline absl::StatusOr<bool> IsServing(
    const std::shared_ptr<grpc::Channel>& channel,
    const std::string& service = "") {
  const std::string request =
      service.empty()
          ? ""
          : std::string("\x0A") + static_cast<char>(service.size()) + service;
  const auto response =
      CallWithBytes(channel, "/grpc.health.v1.Health/Check", request);
  if (!response.ok()) return response.status();
  EXPECT_TRUE(*response == "\x08\x01" || *response == "\x08\x02");
  return *response == "\x08\x01";
}

// The health service's Watch: one reply for each change.
class HealthWatch {
 public:
  explicit HealthWatch(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(channel) {
    SetDeadline(&call_);
    stream_ =
        stub_.PrepareCall(&call_, "/grpc.health.v1.Health/Watch", &queue_);
    stream_->StartCall(nullptr);
    EXPECT_TRUE(Done());
    const grpc::Slice empty;  // a request without fields
    stream_->WriteLast(grpc::ByteBuffer(&empty, 1), {}, nullptr);
    EXPECT_TRUE(Done());
  }
  ~HealthWatch() {
    grpc::Status status;
    call_.TryCancel();
    stream_->Finish(&status, nullptr);
    Done();
  }

  // The reply's bytes; empty at the end.
  std::string Next() {
    grpc::ByteBuffer answer;
    stream_->Read(&answer, nullptr);
    grpc::Slice bytes;
    if (!Done() || !answer.DumpToSingleSlice(&bytes).ok()) return "";
    return std::string(reinterpret_cast<const char*>(bytes.begin()),
                       bytes.size());
  }

 private:
  bool Done() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::GenericStub stub_;
  grpc::ClientContext call_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

// grpc.reflection.v1alpha: field 7 requests the list of services.
inline absl::StatusOr<std::string> ListServices(
    const std::shared_ptr<grpc::Channel>& channel) {
  return CallWithBytes(
      channel, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      std::string("\x3A\x00", 2));
}

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_TESTS_SERVER_RPC_CLIENT_H_
