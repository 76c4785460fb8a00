// Workers' streams, from the view of a client of bytes.

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/digest.h"
#include "protocol/chunks.h"
#include "tests/server/in_process_daemon.h"
#include "tests/server/rpc/client.h"
#include "tests/server/scripted_worker.h"

namespace lockstep::rpc {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

class SessionTest : public testing::Test {
 protected:
  StreamLine& Open() {
    lines_.push_back(std::make_unique<StreamLine>(channel_));
    return *lines_.back();
  }

  // The refusal of a message on a new stream: the code of the Refused, which
  // must equal that of the stream's status.
  StatusCode RefusalOf(const v1::ToCoordinator& message, std::string* why) {
    StreamLine& line = Open();
    line.Write(message);
    StatusCode code = StatusCode::kOk;
    while (const auto answer = line.Read()) {
      const auto* refused = std::get_if<protocol::Refused>(&answer->body);
      if (refused == nullptr) continue;
      code = refused->code;
      *why = refused->message;
    }
    EXPECT_EQ(line.Finish().code(), code);
    return code;
  }
  StatusCode RefusalOf(const protocol::ToCoordinator& message,
                       std::string* why) {
    return RefusalOf(proto::ToProto(message), why);
  }

  InProcessDaemon daemon_;
  const std::shared_ptr<grpc::Channel> channel_ = ChannelTo(daemon_.address());
  std::vector<std::unique_ptr<StreamLine>> lines_;
};

TEST_F(SessionTest, TwoWorkersJoinAndStart) {
  std::vector<ScriptedWorker> workers;
  for (const char* name : {"worker-0", "worker-1"}) {
    workers.emplace_back(&Open(), SpecOf("digits", 2), name);
  }
  JoinAndStart(channel_, "digits", &workers);
  EXPECT_EQ(workers[0].digest(), workers[1].digest());
  const auto plan = Fetch(channel_, "digits", workers[0].digest());
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan::DigestOf(*plan), workers[0].digest());
  EXPECT_EQ(daemon_.metrics().Value({"lockstep_sessions"}), 2);
}

TEST_F(SessionTest, AHundredThousandParametersGoThereAndBack) {
  std::vector<Parameter> parameters;
  for (int i = 0; i < 100'000; ++i) {
    parameters.push_back({.name = absl::StrCat("model.layers.", i, ".weight"),
                          .shape = {16, 16}});
  }
  std::vector<ScriptedWorker> workers;
  workers.emplace_back(&Open(), SpecOf("large", 1), "worker-0");
  JoinAndStart(channel_, "large", &workers,
               *protocol::CutIntoChunks(parameters));
  const auto plan = Fetch(channel_, "large", workers[0].digest());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->parameters.size(), parameters.size());
  EXPECT_EQ(plan::DigestOf(*plan), workers[0].digest());
}

TEST_F(SessionTest, AWorkerResumesOnAnotherStream) {
  std::vector<ScriptedWorker> workers;
  workers.emplace_back(&Open(), SpecOf("digits", 1), "worker-0");
  JoinAndStart(channel_, "digits", &workers);
  lines_[0]->Cancel();
  EXPECT_EQ(lines_[0]->Finish().code(), StatusCode::kCancelled);

  ScriptedWorker again(&Open(), SpecOf("digits", 1), "worker-0");
  protocol::Hello hello = again.Hello();
  hello.generation = workers[0].generation();
  hello.secret = workers[0].secret();
  hello.resume = {.epoch = workers[0].epoch(),
                  .revision = workers[0].revision(),
                  .plan_digest = workers[0].digest()};
  again.Post(hello);
  const auto welcome = again.Next<protocol::Welcome>();
  EXPECT_TRUE(welcome.resumed);
  EXPECT_EQ(welcome.generation, workers[0].generation());
  again.AwaitStart();
}

TEST_F(SessionTest, AWorkerThatLeavesIsToldAndItsStreamEnds) {
  std::vector<ScriptedWorker> workers;
  workers.emplace_back(&Open(), SpecOf("digits", 1), "worker-0");
  JoinAndStart(channel_, "digits", &workers);
  workers[0].Post(protocol::Leave{});
  workers[0].Next<protocol::Left>();
  EXPECT_EQ(lines_[0]->Finish(), absl::OkStatus());
}

// --- Bad input --------------------------------------------------------------

TEST_F(SessionTest, TheFirstMessageMustBeHello) {
  std::string why;
  EXPECT_EQ(RefusalOf({.job = {"digits"}, .body = protocol::Heartbeat{}}, &why),
            StatusCode::kInvalidArgument);
  EXPECT_THAT(why, HasSubstr("Hello"));
}

TEST_F(SessionTest, AMessageThatSaysNothingIsRefused) {
  std::string why;
  EXPECT_EQ(RefusalOf(v1::ToCoordinator(), &why), StatusCode::kInvalidArgument);
}

TEST_F(SessionTest, AFieldOutOfItsDomainIsNamed) {
  v1::ToCoordinator message = proto::ToProto(protocol::ToCoordinator{
      .job = {"digits"},
      .body = protocol::Hello{.worker = {"w"}, .spec = SpecOf("digits", 1)}});
  message.mutable_hello()->mutable_spec()->set_on_stuck(
      static_cast<v1::OnStuck>(9));
  std::string why;
  EXPECT_EQ(RefusalOf(message, &why), StatusCode::kInvalidArgument);
  EXPECT_THAT(why, HasSubstr("hello.spec.on_stuck"));
}

TEST_F(SessionTest, AnotherProtocolVersionIsRefusedWithBoth) {
  protocol::Hello hello{.version = 77, .worker = {"w"}, .incarnation = 1};
  std::string why;
  EXPECT_EQ(RefusalOf({.job = {"digits"}, .body = hello}, &why),
            StatusCode::kFailedPrecondition);
  EXPECT_THAT(why, HasSubstr("77"));
  EXPECT_THAT(why, HasSubstr(absl::StrCat(protocol::kVersion)));
}

TEST_F(SessionTest, AnUnknownJobIsRefused) {
  protocol::Hello hello{.worker = {"w"}, .incarnation = 1};
  std::string why;
  EXPECT_EQ(RefusalOf({.job = {"nowhere"}, .body = hello}, &why),
            StatusCode::kNotFound);
  EXPECT_THAT(why, HasSubstr("nowhere"));
}

TEST_F(SessionTest, AMessageOverTheLimitIsOneClearError) {
  StreamLine& line = Open();
  v1::ToCoordinator message;
  message.mutable_hello()->set_token(std::string(5 << 20, 'x'));
  line.Write(message);
  const absl::Status status = line.Finish();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat(RpcLimitValues().message_bytes)));
}

TEST_F(SessionTest, TheHistorySaysWhyAWorkerWasRefusedInItsStream) {
  std::vector<ScriptedWorker> workers;
  workers.emplace_back(&Open(), SpecOf("digits", 1), "worker-0");
  JoinAndStart(channel_, "digits", &workers);
  v1::ToCoordinator message;
  message.mutable_header()->set_job("digits");
  message.mutable_hello()->set_token(std::string(5 << 20, 'x'));
  lines_[0]->Write(message);
  EXPECT_EQ(lines_[0]->Finish().code(), StatusCode::kResourceExhausted);
  const auto admin = v1::Admin::NewStub(channel_);
  v1::DescribeJobRequest request;
  request.mutable_header()->set_job("digits");
  v1::DescribeJobResponse response;
  std::string history;
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  while (history.find("lost its stream") == std::string::npos &&
         absl::Now() < deadline) {
    grpc::ClientContext call;
    SetDeadline(&call);
    ASSERT_TRUE(admin->DescribeJob(&call, request, &response).ok());
    history = response.view().ShortDebugString();
  }
  EXPECT_THAT(history,
              HasSubstr("lost its stream: it was refused: a message of 52429"));
}

TEST_F(SessionTest, BytesThatAreNoMessageEndTheStream) {
  const auto answer = CallWithBytes(
      channel_, "/lockstep.v1.Coordinator/Session", "\xFF\xFF\xFF\xFF");
  EXPECT_EQ(answer.status().code(), StatusCode::kInvalidArgument)
      << answer.status();
}

TEST_F(SessionTest, AWorkerThatDoesNotReadIsDisconnected) {
  JobSpec spec = SpecOf("digits", 2);
  for (int i = 0; i < 500; ++i) {  // makes each Welcome large
    spec.workers.push_back(absl::StrCat("worker-with-a-long-name-", i));
  }
  spec.mesh.axes[0].size = 500;
  StreamLine& line = Open();
  ScriptedWorker worker(&line, spec, spec.workers[0]);
  const v1::ToCoordinator hello = proto::ToProto(
      protocol::ToCoordinator{.job = {spec.name}, .body = worker.Hello()});
  int said = 0;
  while (said < 20'000 && line.Write(hello)) ++said;
  EXPECT_LT(said, 20'000);
  const absl::Status status = line.Finish();
  EXPECT_TRUE(status.code() == StatusCode::kResourceExhausted ||
              status.code() == StatusCode::kCancelled)
      << status;
}

// --- Many workers -----------------------------------------------------------

TEST_F(SessionTest, StreamsComeAndGoInEveryWay) {
  constexpr int kThreads = 6, kStreams = 40;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < kStreams; ++i) {
        StreamLine line(channel_);
        ScriptedWorker worker(&line, SpecOf(absl::StrCat("job-", t, "-", i), 2),
                              "worker-0");
        const bool speaks = random() % 4 > 0;
        if (speaks) worker.PostHello();
        if (speaks && random() % 2 > 0) (void)line.Read();
        const uint64_t end = random() % 3;
        if (end == 0) line.Cancel();
        if (end == 1) line.WritesDone();
        if (end == 2) line.Write(v1::ToCoordinator());  // is refused
        (void)line.Finish();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // A stream is closed shortly after its client knows.
  while (daemon_.metrics().Value({"lockstep_sessions"}) > 0) {
    std::this_thread::yield();
  }
}

// --- Missing plans ----------------------------------------------------------

TEST_F(SessionTest, FetchPlanNeedsAJobAndItsPlan) {
  EXPECT_EQ(Fetch(channel_, "nowhere", "d").status().code(),
            StatusCode::kNotFound);
  std::vector<ScriptedWorker> workers;
  workers.emplace_back(&Open(), SpecOf("digits", 1), "worker-0");
  JoinAndStart(channel_, "digits", &workers);
  const absl::Status status = Fetch(channel_, "digits", "0123").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("0123"));
}

}  // namespace
}  // namespace lockstep::rpc
