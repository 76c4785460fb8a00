// Listeners, health, reflection, the daemon's token, and going down.

#include "server/rpc/server.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/in_process_daemon.h"
#include "tests/server/rpc/client.h"
#include "tests/server/scripted_worker.h"
#include "tests/support/memory_file_system.h"

namespace lockstep::rpc {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
using testing::Not;

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
  ServerOptions options;
  options.health = Address{"127.0.0.1", 0};
  InProcessDaemon daemon(options);
  ASSERT_TRUE(daemon.server().health_address().has_value());
  const auto channel = ChannelTo(ToString(*daemon.server().health_address()));
  EXPECT_TRUE(IsServing(channel).value());
  EXPECT_TRUE(IsServing(channel, "lockstep.v1.Coordinator").value());
  EXPECT_EQ(Fetch(channel, "job", "digest").status().code(),
            StatusCode::kUnimplemented);
  EXPECT_EQ(ListServices(channel).status().code(), StatusCode::kUnimplemented);
  daemon.server().SetServing(false);
  EXPECT_FALSE(IsServing(channel).value());
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
    options.gate = TokenGate("secret");
    return options;
  }
  StatusCode HelloWith(const std::string& token) {
    StreamLine line(channel_);
    ScriptedWorker worker(&line, SpecOf("digits", 2), "worker-0");
    protocol::Hello hello = worker.Hello();
    hello.token = token;
    line.Say({.job = {"digits"}, .body = hello});
    const auto answer = line.Read();
    if (std::holds_alternative<protocol::Welcome>(answer->body)) {
      return StatusCode::kOk;
    }
    EXPECT_EQ(line.Finish().code(), StatusCode::kPermissionDenied);
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
    EXPECT_EQ(HelloWith(token), StatusCode::kPermissionDenied);
    EXPECT_EQ(ListWith(token), StatusCode::kPermissionDenied);
    EXPECT_EQ(WatchWith(token), StatusCode::kPermissionDenied);
    EXPECT_EQ(Fetch(channel_, "digits", "d", token).status().code(),
              StatusCode::kPermissionDenied);
  }
}

TEST_F(DaemonTokenTest, WhoBearsItComesIn) {
  EXPECT_EQ(HelloWith("secret"), StatusCode::kOk);
  EXPECT_EQ(ListWith("secret"), StatusCode::kOk);
  EXPECT_EQ(WatchWith("secret"), StatusCode::kNotFound);
  EXPECT_EQ(Fetch(channel_, "digits", "d", "secret").status().code(),
            StatusCode::kNotFound);
}

TEST(TokenGateTest, TheFirstLineOfAFileIsTheToken) {
  MemoryFileSystem files;
  ASSERT_TRUE(ReplaceFile(&files, "/token", "secret\r\nmore\n").ok());
  const auto gate = TokenGate::FromFile(&files, "/token");
  ASSERT_TRUE(gate.ok());
  EXPECT_TRUE(gate->Check("secret").ok());
  EXPECT_FALSE(gate->Check("secret\r").ok());
  EXPECT_FALSE(gate->Check("").ok());
  ASSERT_TRUE(ReplaceFile(&files, "/token", "\nsecret\n").ok());
  EXPECT_EQ(TokenGate::FromFile(&files, "/token").status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(TokenGate::FromFile(&files, "/none").status().code(),
            StatusCode::kNotFound);
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

// --- Going down -------------------------------------------------------------

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
  worker.SayHello();
  worker.Next<protocol::Welcome>();
  daemon->server().Shutdown(absl::ZeroDuration());
  daemon.reset();
  EXPECT_FALSE(line.Finish().ok());
}

}  // namespace
}  // namespace lockstep::rpc
