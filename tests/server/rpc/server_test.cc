// Listeners, health, reflection, the daemon's token, and shutdown.

#include "server/rpc/server.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/health_listener.h"
#include "tests/server/in_process_daemon.h"
#include "tests/server/rpc/client.h"
#include "tests/server/rpc/raw_connection.h"
#include "tests/server/scripted_worker.h"

namespace lockstep::rpc {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

// --- Listeners --------------------------------------------------------------

TEST(ListenTest, APortInUseIsNamed) {
  InProcessDaemon daemon;
  ServerOptions options;
  options.listen = daemon.server().address();
  const absl::Status status = Server::Start(options, &daemon.loop()).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr(daemon.address()));
}

TEST(ListenTest, OthersMayBeServedInPlaintextOnlyIfThatIsSaid) {
  InProcessDaemon daemon;
  ServerOptions options;
  options.listen = {"0.0.0.0", 0};
  const absl::Status status = Server::Start(options, &daemon.loop()).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--insecure"));
  options.insecure = true;
  EXPECT_TRUE(Server::Start(options, &daemon.loop()).ok());
}

// --- Strangers --------------------------------------------------------------

TEST(StrangersTest, WhoConnectsAndSaysNothingIsDisconnected) {
  ServerOptions options;
  options.handshake_timeout = absl::Milliseconds(100);
  InProcessDaemon daemon(options);
  const FileDescriptor stranger = ConnectTo(daemon.server().address());
  EXPECT_TRUE(IsClosedByPeer(stranger));
}

TEST(StrangersTest, AConnectionWithoutACallEndsAndASilentStreamDoesNot) {
  ServerOptions options;
  options.idle_timeout = absl::Milliseconds(100);
  InProcessDaemon daemon(options);
  const auto used = ChannelTo(daemon.address());
  StreamLine line(used);
  ScriptedWorker worker(&line, SpecOf("digits", 1), "worker-0");
  worker.PostHello();

  const auto idle = ChannelTo(daemon.address());
  ASSERT_TRUE(IsServing(idle).value());
  EXPECT_TRUE(idle->WaitForStateChange(
      GRPC_CHANNEL_READY,
      std::chrono::system_clock::now() + std::chrono::seconds(60)));
  worker.Register();
  EXPECT_NE(worker.AwaitPlan(), "");
}

// --- Health and reflection --------------------------------------------------

TEST(HealthTest, SaysSoForTheServerAndEachService) {
  InProcessDaemon daemon;
  const auto channel = ChannelTo(daemon.address());
  for (const char* service :
       {"", "lockstep.v1.Coordinator", "lockstep.v1.Admin"}) {
    EXPECT_TRUE(IsServing(channel, service).value()) << service;
  }
  EXPECT_EQ(IsServing(channel, "no.such.Service").status().code(),
            StatusCode::kNotFound);
  daemon.server().SetServing(false);
  EXPECT_FALSE(IsServing(channel).value());
}

TEST(HealthTest, TheSecondListenerHasNothingElse) {
  const auto health = HealthListener::Start({"127.0.0.1", 0}, {});
  ASSERT_TRUE(health.ok()) << health.status();
  const auto channel = ChannelTo(ToString((*health)->address()));
  EXPECT_FALSE(IsServing(channel).value());
  EXPECT_TRUE(IsServing(channel, "alive").value());
  (*health)->SetServing(true);
  EXPECT_TRUE(IsServing(channel).value());
  EXPECT_TRUE(IsServing(channel, "lockstep.v1.Coordinator").value());
  EXPECT_EQ(Fetch(channel, "job", "digest").status().code(),
            StatusCode::kUnimplemented);
  EXPECT_EQ(ListServices(channel).status().code(), StatusCode::kUnimplemented);
  (*health)->SetServing(false);
  EXPECT_FALSE(IsServing(channel).value());
  EXPECT_TRUE(IsServing(channel, "alive").value());
}

TEST(ReflectionTest, ListsTheServices) {
  InProcessDaemon daemon;
  const auto services = ListServices(ChannelTo(daemon.address()));
  ASSERT_TRUE(services.ok()) << services.status();
  EXPECT_THAT(*services, HasSubstr("lockstep.v1.Coordinator"));
  EXPECT_THAT(*services, HasSubstr("lockstep.v1.Admin"));
  EXPECT_THAT(*services, HasSubstr("grpc.health.v1.Health"));
}

// --- The daemon's token -----------------------------------------------------

class DaemonTokenTest : public testing::Test {
 protected:
  static ServerOptions WithToken() {
    ServerOptions options;
    options.gate = TokenGate({.operators = {"secret"}});
    return options;
  }
  StatusCode HelloWith(const std::string& token) {
    StreamLine line(channel_);
    ScriptedWorker worker(&line, SpecOf("digits", 2), "worker-0");
    protocol::Hello hello = worker.Hello();
    hello.token = token;
    line.Post({.job = {"digits"}, .body = hello});
    const auto answer = line.Read();
    if (std::holds_alternative<protocol::Welcome>(answer->body)) {
      return StatusCode::kOk;
    }
    EXPECT_EQ(line.Finish().code(), StatusCode::kUnauthenticated);
    return std::get<protocol::Refused>(answer->body).code;
  }
  StatusCode ListWith(const std::string& token) {
    const auto admin = v1::Admin::NewStub(channel_);
    v1::ListJobsRequest request;
    request.set_token(token);
    v1::ListJobsResponse response;
    grpc::ClientContext call;
    SetDeadline(&call);
    return ToAbsl(admin->ListJobs(&call, request, &response)).code();
  }
  StatusCode WatchWith(const std::string& token) {
    const auto admin = v1::Admin::NewStub(channel_);
    v1::WatchJobRequest request;
    request.set_token(token);
    v1::WatchJobResponse response;
    grpc::ClientContext call;
    SetDeadline(&call);
    return ToAbsl(admin->WatchJob(&call, request)->Finish()).code();
  }

  InProcessDaemon daemon_{WithToken()};
  const std::shared_ptr<grpc::Channel> channel_ = ChannelTo(daemon_.address());
};

TEST_F(DaemonTokenTest, NobodyComesInWithoutIt) {
  for (const char* token : {"", "wrong", "secrets"}) {
    EXPECT_EQ(HelloWith(token), StatusCode::kUnauthenticated);
    EXPECT_EQ(ListWith(token), StatusCode::kUnauthenticated);
    EXPECT_EQ(WatchWith(token), StatusCode::kUnauthenticated);
    EXPECT_EQ(Fetch(channel_, "digits", "d", token).status().code(),
              StatusCode::kUnauthenticated);
  }
}

TEST_F(DaemonTokenTest, WhoBearsItComesIn) {
  EXPECT_EQ(HelloWith("secret"), StatusCode::kOk);
  EXPECT_EQ(ListWith("secret"), StatusCode::kOk);
  EXPECT_EQ(WatchWith("secret"), StatusCode::kNotFound);
  EXPECT_EQ(Fetch(channel_, "digits", "d", "secret").status().code(),
            StatusCode::kNotFound);
}

// A worker creates and joins jobs; only the operator views and ends them.
TEST(WorkerTokenTest, OpensWhatWorkersNeedAndNothingElse) {
  ServerOptions options;
  options.gate = TokenGate({.operators = {"operator"}, .workers = {"worker"}});
  InProcessDaemon daemon(options);
  const auto channel = ChannelTo(daemon.address());
  StreamLine line(channel);
  ScriptedWorker worker(&line, SpecOf("digits", 1), "worker-0");
  protocol::Hello hello = worker.Hello();
  hello.token = "worker";
  worker.Post(hello);
  worker.Register();
  const std::string digest = worker.AwaitPlan();
  EXPECT_TRUE(Fetch(channel, "digits", digest, "worker").ok());
  EXPECT_TRUE(Fetch(channel, "digits", digest, "operator").ok());
  EXPECT_EQ(Fetch(channel, "digits", digest).status().code(),
            StatusCode::kUnauthenticated);

  const auto admin = v1::Admin::NewStub(channel);
  const auto ask = [&](auto request, auto response, auto method,
                       const std::string& token) {
    request.mutable_header()->set_job("digits");
    request.set_token(token);
    grpc::ClientContext call;
    SetDeadline(&call);
    return ToAbsl((admin.get()->*method)(&call, request, &response)).code();
  };
  using Stub = v1::Admin::Stub;
  const auto ask_all = [&](const std::string& token) {
    v1::CreateJobRequest create;
    *create.mutable_spec() = proto::ToProto(SpecOf("digits", 1));
    v1::CommandJobRequest command;
    command.set_command(v1::JOB_COMMAND_PAUSE);
    return std::vector<StatusCode>{
        ask(create, v1::CreateJobResponse(), &Stub::CreateJob, token),
        ask(v1::ListJobsRequest(), v1::ListJobsResponse(), &Stub::ListJobs,
            token),
        ask(v1::DescribeJobRequest(), v1::DescribeJobResponse(),
            &Stub::DescribeJob, token),
        ask(command, v1::CommandJobResponse(), &Stub::CommandJob, token),
        ask(v1::StopJobRequest(), v1::StopJobResponse(), &Stub::StopJob,
            token)};
  };
  EXPECT_THAT(ask_all("worker"), testing::Each(StatusCode::kPermissionDenied));
  EXPECT_THAT(ask_all(""), testing::Each(StatusCode::kUnauthenticated));
  v1::ReportEvidenceRequest evidence;
  evidence.mutable_evidence()->set_subject("worker-9");
  evidence.mutable_evidence()->set_kind(v1::EVIDENCE_KIND_EXITED);
  EXPECT_EQ(ask(evidence, v1::ReportEvidenceResponse(), &Stub::ReportEvidence,
                "worker"),
            StatusCode::kOk);
  EXPECT_EQ(
      ask(evidence, v1::ReportEvidenceResponse(), &Stub::ReportEvidence, ""),
      StatusCode::kUnauthenticated);
  v1::SaveJobRequest save;
  EXPECT_EQ(ask(save, v1::SaveJobResponse(), &Stub::SaveJob, ""),
            StatusCode::kUnauthenticated);
  EXPECT_THAT(ask_all("operator"), testing::Each(StatusCode::kOk));
  // Admitted, but the job is over.
  EXPECT_EQ(ask(save, v1::SaveJobResponse(), &Stub::SaveJob, "worker"),
            StatusCode::kFailedPrecondition);
  save.set_ask_only(true);
  EXPECT_EQ(ask(save, v1::SaveJobResponse(), &Stub::SaveJob, "worker"),
            StatusCode::kOk);
}

// The token may be in a field that this version does not know.
TEST_F(DaemonTokenTest, AWorkerOfAnotherVersionLearnsThatFirst) {
  StreamLine line(channel_);
  ScriptedWorker worker(&line, SpecOf("digits", 1), "worker-0");
  protocol::Hello hello = worker.Hello();
  hello.version = protocol::kVersion + 1;
  worker.Post(hello);
  const auto answer = line.Read();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(std::get<protocol::Refused>(answer->body).code,
            StatusCode::kFailedPrecondition);
}

// --- Addresses --------------------------------------------------------------

TEST(AddressTest, ReadsWhatItWrites) {
  for (const char* text : {"127.0.0.1:7070", "[::1]:0", "coordinator:65535"}) {
    const auto address = ParseAddress(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(ToString(*address), text);
  }
}

TEST(AddressTest, NamesWhatIsNone) {
  for (const char* text :
       {"", "7070", "host", "host:", ":7070", "host:x", "host:-1", "host:65536",
        "::1:7070", "[::1]", "[host]:1"}) {
    const auto address = ParseAddress(text);
    EXPECT_EQ(address.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(address.status().message()), HasSubstr(text));
  }
}

TEST(AddressTest, KnowsWhatOnlyThisMachineCanReach) {
  for (const char* host : {"localhost", "127.0.0.1", "127.8.9.1", "::1"}) {
    EXPECT_TRUE(IsLoopback({host, 1})) << host;
  }
  for (const char* host :
       {"0.0.0.0", "10.0.0.1", "::", "coordinator", "127.0.0.1.example.org"}) {
    EXPECT_FALSE(IsLoopback({host, 1})) << host;
  }
}

// --- Shutdown ---------------------------------------------------------------

TEST(ShutdownTest, StreamsEndWithUnavailableAndJobsLiveOn) {
  InProcessDaemon daemon;
  const auto channel = ChannelTo(daemon.address());
  StreamLine silent(channel), line(channel);
  std::vector<ScriptedWorker> workers;
  workers.emplace_back(&line, SpecOf("digits", 1), "worker-0");
  JoinAndStart(channel, "digits", &workers);
  daemon.server().SetServing(false);
  daemon.loop().Drain();
  EXPECT_EQ(line.Finish().code(), StatusCode::kUnavailable);
  EXPECT_EQ(silent.Finish().code(), StatusCode::kUnavailable);
  daemon.server().Shutdown(absl::Seconds(30));
  EXPECT_EQ(ToAbsl(grpc::Status(grpc::UNAVAILABLE, "")).code(),
            Fetch(channel, "digits", "d").status().code());
}

TEST(ShutdownTest, CallsThatDoNotEndAreCancelled) {
  auto daemon = std::make_unique<InProcessDaemon>();
  StreamLine line(ChannelTo(daemon->address()));
  ScriptedWorker worker(&line, SpecOf("digits", 2), "worker-0");
  worker.PostHello();
  worker.Next<protocol::Welcome>();
  daemon->server().Shutdown(absl::ZeroDuration());
  daemon.reset();
  EXPECT_FALSE(line.Finish().ok());
}

}  // namespace
}  // namespace lockstep::rpc
