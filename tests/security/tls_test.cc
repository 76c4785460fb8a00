// Every way in which TLS between a client and the coordinator can be wrong: the
// coordinator refuses, the client's error says why, and a running job goes on.

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/server_credentials.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/tls/probe.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/grpc_credentials.h"
#include "proto/grpc_process.h"
#include "tests/security/certificates.h"
#include "tests/security/eventually.h"
#include "tests/server/in_process_daemon.h"
#include "tests/server/rpc/client.h"
#include "tests/server/scripted_worker.h"
#include "tools/rpc/admin_client.h"

namespace lockstep::security {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;

rpc::ServerOptions WithTls(const std::string& folder) {
  rpc::ServerOptions options;
  options.tls_folder = folder;
  return options;
}

absl::Status List(const std::string& address, const std::string& folder) {
  return ctl::AdminClient({.addresses = address,
                           .tls_folder = folder,
                           .deadline = absl::Seconds(30)})
      .ListJobs()
      .status();
}

// A client that checks nothing of its own, as an intruder's.
std::shared_ptr<grpc::Channel> ChannelOf(const std::string& address,
                                         const Identity& identity,
                                         const std::string& authority) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = authority;
  options.pem_private_key = identity.own.key;
  options.pem_cert_chain = identity.own.certificate;
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::SslCredentials(options),
                                   arguments);
}

StatusCode CodeOfList(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = v1::Admin::NewStub(channel);
  v1::ListJobsRequest request;
  *request.mutable_header() = proto::ToProto(proto::Header{});
  v1::ListJobsResponse response;
  grpc::ClientContext call;
  rpc::SetDeadline(&call);
  return static_cast<StatusCode>(
      stub->ListJobs(&call, request, &response).error_code());
}

class TlsTest : public testing::Test {
 protected:
  const Certificates& made_ = TheCertificates();
  InProcessDaemon daemon_{WithTls(made_.coordinator.folder)};
};

TEST_F(TlsTest, AnOperatorsCertificateOperates) {
  EXPECT_TRUE(List(daemon_.address(), made_.operator_.folder).ok());
}

TEST_F(TlsTest, AWorkersCertificateJoinsAndOperatesNothing) {
  const absl::Status listed = List(daemon_.address(), made_.worker.folder);
  EXPECT_EQ(listed.code(), StatusCode::kPermissionDenied) << listed;
  EXPECT_THAT(std::string(listed.message()),
              AllOf(HasSubstr("worker"), HasSubstr("operator's")));
  const auto credentials = proto::MakeClientCredentials(made_.worker.folder);
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  rpc::StreamLine line(grpc::CreateChannel(daemon_.address(), *credentials));
  ScriptedWorker worker(&line, SpecOf("digits", 1), "worker-0");
  worker.PostHello();
  worker.Register();
  EXPECT_NE(worker.AwaitPlan(), "");
}

TEST_F(TlsTest, ClientsWithBadCertificatesAreRefusedAndAJobGoesOn) {
  const auto credentials = proto::MakeClientCredentials(made_.worker.folder);
  ASSERT_TRUE(credentials.ok());
  rpc::StreamLine line(grpc::CreateChannel(daemon_.address(), *credentials));
  ScriptedWorker worker(&line, SpecOf("digits", 1), "worker-0");
  worker.PostHello();
  const std::string& authority = made_.coordinator.authority;
  for (const Identity* bad :
       {&made_.expired_worker, &made_.future_worker, &made_.self_signed,
        &made_.strange_worker, &made_.coordinator}) {
    EXPECT_EQ(CodeOfList(ChannelOf(daemon_.address(), *bad, authority)),
              StatusCode::kUnavailable)
        << bad->folder;
  }
  const auto nothing = ChannelOf(daemon_.address(), {}, authority);
  EXPECT_EQ(CodeOfList(nothing), StatusCode::kUnavailable);
  const auto plain = rpc::ChannelTo(daemon_.address());
  EXPECT_EQ(CodeOfList(plain), StatusCode::kUnavailable);
  worker.Register();
  EXPECT_NE(worker.AwaitPlan(), "");
}

TEST_F(TlsTest, AClientKnowsBeforehandThatItsCertificateIsBad) {
  const absl::Status expired =
      List(daemon_.address(), made_.expired_worker.folder);
  EXPECT_EQ(expired.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(expired.message()),
              AllOf(HasSubstr("expired at"), HasSubstr("tls.crt")));
  EXPECT_EQ(List(daemon_.address(), "/nonexistent").code(),
            StatusCode::kNotFound);
}

TEST_F(TlsTest, AClientWithoutTlsIsToldSo) {
  const absl::Status listed = List(daemon_.address(), "");
  EXPECT_EQ(listed.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(listed.message()),
              AllOf(HasSubstr("serves TLS"), HasSubstr("LOCKSTEP_TLS")));
}

TEST_F(TlsTest, AClientOfAnotherAuthorityIsToldSo) {
  const absl::Status listed =
      List(daemon_.address(), made_.strange_worker.folder);
  EXPECT_EQ(listed.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(listed.message()),
              HasSubstr("not signed by the authority"));
}

TEST(PlaintextTest, AClientWithTlsIsTold) {
  InProcessDaemon daemon;
  const absl::Status listed =
      List(daemon.address(), TheCertificates().operator_.folder);
  EXPECT_EQ(listed.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(listed.message()), HasSubstr("serves plaintext"));
}

// --- Servers that a client must not trust -----------------------------------

// A server that checks nothing of its own.
struct FalseServer {
  explicit FalseServer(const Identity& identity) {
    proto::StartGrpc();
    grpc::SslServerCredentialsOptions options;
    options.pem_key_cert_pairs.push_back(
        {identity.own.key, identity.own.certificate});
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(options),
                             &port);
    builder.RegisterCallbackGenericService(&service);
    server = builder.BuildAndStart();
    address = absl::StrCat("127.0.0.1:", port);
  }
  ~FalseServer() { server->Shutdown(std::chrono::system_clock::now()); }

  grpc::CallbackGenericService service;
  std::unique_ptr<grpc::Server> server;
  std::string address;
};

TEST(FalseServerTest, IsNotTrustedAndTheClientSaysWhy) {
  const Certificates& made = TheCertificates();
  const struct {
    const Identity* server;
    const char* fault;
  } cases[] = {
      {&made.expired_server, "expired at"},
      {&made.elsewhere, "is for elsewhere.test, and not for 127.0.0.1"},
      {&made.self_signed, "not signed by the authority"},
      {&made.worker_as_server, "is not one of a coordinator"},
  };
  for (const auto& [identity, fault] : cases) {
    const FalseServer server(*identity);
    const absl::Status listed = List(server.address, made.operator_.folder);
    EXPECT_EQ(listed.code(), StatusCode::kUnavailable) << fault;
    EXPECT_THAT(std::string(listed.message()), HasSubstr(fault));
  }
  // The test can tell: this one is trusted, and has no such method.
  const FalseServer good(made.coordinator);
  EXPECT_EQ(List(good.address, made.operator_.folder).code(),
            StatusCode::kUnimplemented);
}

// --- Rotation ---------------------------------------------------------------

TEST(RotationTest, ARunningServerLoadsNewFilesAndOpenStreamsGoOn) {
  const Certificates& made = TheCertificates();
  const TestFolder scratch;
  const std::string folder = scratch.File("coordinator");
  WriteIdentity(folder, made.coordinator.authority, made.coordinator.own);
  InProcessDaemon daemon(WithTls(folder));
  const auto credentials = proto::MakeClientCredentials(made.worker.folder);
  ASSERT_TRUE(credentials.ok());
  rpc::StreamLine line(grpc::CreateChannel(daemon.address(), *credentials));
  ScriptedWorker worker(&line, SpecOf("digits", 1), "worker-0");
  worker.PostHello();

  const auto strange = [&] {
    return CodeOfList(ChannelOf(daemon.address(), made.strange_worker,
                                made.coordinator.authority));
  };
  EXPECT_EQ(strange(), StatusCode::kUnavailable);
  // Both authorities are accepted while one replaces the other.
  WriteIdentity(folder,
                made.coordinator.authority + made.strange_worker.authority,
                made.coordinator.own);
  EXPECT_TRUE(
      Eventually([&] { return strange() == StatusCode::kPermissionDenied; }));
  // Then the old one no longer is.
  WriteIdentity(folder, made.strange_worker.authority, made.coordinator.own);
  EXPECT_TRUE(Eventually([&] {
    return CodeOfList(ChannelOf(daemon.address(), made.operator_,
                                made.coordinator.authority)) ==
           StatusCode::kUnavailable;
  }));
  worker.Register();
  EXPECT_NE(worker.AwaitPlan(), "");
}

// --- The daemon -------------------------------------------------------------

TEST(DaemonTlsTest, RefusesToListenForOthersWithoutCertificates) {
  const ToolOutcome refused =
      RunProgram({"lockstepd", "--listen", "0.0.0.0:0"});
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.output,
              AllOf(HasSubstr("lockstepctl certs init"), HasSubstr("--tls"),
                    HasSubstr("--insecure")));
}

TEST(DaemonTlsTest, ChecksItsCertificatesAtTheStart) {
  const Certificates& made = TheCertificates();
  const ToolOutcome expired =
      RunProgram({"lockstepd", "--listen", "127.0.0.1:0", "--tls",
                  made.expired_server.folder});
  EXPECT_NE(expired.code, 0);
  EXPECT_THAT(expired.output, HasSubstr("expired at"));
  const ToolOutcome both =
      RunProgram({"lockstepd", "--listen", "127.0.0.1:0", "--insecure", "--tls",
                  made.coordinator.folder});
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.output, HasSubstr("--insecure"));
}

}  // namespace
}  // namespace lockstep::security
