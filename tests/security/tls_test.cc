// Every way in which TLS between a client and the coordinator can be wrong: the
// coordinator refuses, the client's error says why, and a running job goes on.

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/server_credentials.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/tls/probe.h"
#include "base/tls/tls_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/grpc_credentials.h"
#include "proto/grpc_process.h"
#include "tests/security/certificates.h"
#include "tests/security/eventually.h"
#include "tests/server/in_process_daemon.h"
#include "tests/server/rpc/client.h"
#include "tests/server/scripted_worker.h"
#include "tests/support/paths.h"
#include "tests/support/program.h"
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
  const auto credentials = proto::ClientCredentials::Make(
      made_.worker.folder, {tls::CertificateRole::kWorker});
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  rpc::StreamLine line(
      grpc::CreateChannel(daemon_.address(), (*credentials)->Current()));
  ScriptedWorker worker(&line, SpecOf("digits", 1), "worker-0");
  worker.PostHello();
  worker.Register();
  EXPECT_NE(worker.AwaitPlan(), "");
}

TEST_F(TlsTest, ItsCertificateIsShownToThoseWhomItRefusesToo) {
  const TestFolder none;
  for (const std::string& folder :
       {made_.operator_.folder, none.path(), std::string()}) {
    const auto shown = tls::ShownCertificate(daemon_.address(), folder);
    ASSERT_TRUE(shown.ok()) << shown.status();
    const auto own = tls::CheckTlsFolder(made_.coordinator.folder, absl::Now());
    ASSERT_TRUE(own.ok()) << own.status();
    EXPECT_EQ(shown->hosts, own->hosts);
    EXPECT_EQ(shown->until, own->until);
    EXPECT_LT(shown->from, absl::Now());
  }
  const InProcessDaemon plaintext;
  for (const std::string& address :
       {plaintext.address(), std::string("127.0.0.1:1"), std::string("?")}) {
    EXPECT_TRUE(absl::IsUnavailable(
        tls::ShownCertificate(address, made_.worker.folder).status()));
  }
}

TEST_F(TlsTest, ClientsWithBadCertificatesAreRefusedAndAJobGoesOn) {
  const auto credentials = proto::ClientCredentials::Make(
      made_.worker.folder, {tls::CertificateRole::kWorker});
  ASSERT_TRUE(credentials.ok());
  rpc::StreamLine line(
      grpc::CreateChannel(daemon_.address(), (*credentials)->Current()));
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
      {&made.worker_as_server, "of mallory, is not one of a coordinator"},
      {&made.worker, "of worker, is not one of a coordinator"},
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
  rpc::ServerOptions options = WithTls(folder);
  options.tls_interval = absl::Milliseconds(5);
  InProcessDaemon daemon(options);
  const auto credentials = proto::ClientCredentials::Make(
      made.worker.folder, {tls::CertificateRole::kWorker});
  ASSERT_TRUE(credentials.ok());
  rpc::StreamLine line(
      grpc::CreateChannel(daemon.address(), (*credentials)->Current()));
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
  WriteIdentity(folder, made.strange_worker.authority,
                made.strange_coordinator.own);
  EXPECT_TRUE(Eventually([&] {
    return CodeOfList(ChannelOf(
               daemon.address(), made.operator_,
               made.coordinator.authority + made.strange_worker.authority)) ==
           StatusCode::kUnavailable;
  }));
  EXPECT_EQ(List(daemon.address(), made.strange_operator.folder),
            absl::OkStatus());
  worker.Register();
  EXPECT_NE(worker.AwaitPlan(), "");
}

// In place, as cp does. After each there is a pair that gRPC must not see.
const std::vector<std::function<void(const std::string&)>>& WaysToBreak() {
  static const Certificates& made = TheCertificates();
  static const std::vector<std::function<void(const std::string&)>> ways = {
      [](const std::string& folder) { CopyOver(tls::FilesIn(folder).key, ""); },
      [](const std::string& folder) {
        CopyOver(tls::FilesIn(folder).key, made.strange_worker.own.key);
      },
      [](const std::string& folder) {
        const std::string path = tls::FilesIn(folder).certificate;
        const std::string whole = ContentsOf(path);
        CopyOver(path, whole.substr(0, whole.size() / 2));
      },
      [](const std::string& folder) {
        CopyOver(tls::FilesIn(folder).authority, "");
      },
  };
  return ways;
}

// A log that other threads write.
class Lines {
 public:
  void Add(const std::string& line) {
    MutexLock lock(&mutex_);
    lines_.push_back(line);
  }
  int Count(const std::string& text) const {
    MutexLock lock(&mutex_);
    return static_cast<int>(std::count_if(
        lines_.begin(), lines_.end(),
        [&](const auto& line) { return absl::StrContains(line, text); }));
  }

 private:
  mutable Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

TEST(RotationTest, ARunningServerKeepsItsCertificatesWhileFilesAreBroken) {
  const Certificates& made = TheCertificates();
  const TestFolder scratch;
  const std::string folder = scratch.File("coordinator");
  WriteIdentity(folder, made.coordinator.authority, made.coordinator.own);
  Lines log;
  rpc::ServerOptions options = WithTls(folder);
  options.tls_interval = absl::Milliseconds(5);
  options.on_warning = [&](const std::string& line) { log.Add(line); };
  InProcessDaemon daemon(options);
  int broken = 0;
  for (const auto& break_files : WaysToBreak()) {
    break_files(folder);
    ++broken;
    ASSERT_TRUE(Eventually([&] { return log.Count("stay in use") == broken; }));
    EXPECT_EQ(CodeOfList(ChannelOf(daemon.address(), made.operator_,
                                   made.coordinator.authority)),
              StatusCode::kOk)
        << broken;
  }
  EXPECT_EQ(log.Count("have changed"), 0);
  WriteIdentity(folder, made.strange_coordinator.authority,
                made.strange_coordinator.own);
  ASSERT_TRUE(Eventually([&] { return log.Count("have changed") == 1; }));
  EXPECT_EQ(CodeOfList(ChannelOf(daemon.address(), made.strange_operator,
                                 made.strange_coordinator.authority)),
            StatusCode::kOk);
}

TEST(RotationTest, AnAdminClientKeepsItsCertificatesWhileFilesAreBroken) {
  const Certificates& made = TheCertificates();
  const TestFolder scratch;
  const std::string folder = scratch.File("operator");
  WriteIdentity(folder, made.operator_.authority, made.operator_.own);
  Lines log;
  auto daemon =
      std::make_unique<InProcessDaemon>(WithTls(made.coordinator.folder));
  ctl::AdminClient admin(
      {.addresses = daemon->address(),
       .tls_folder = folder,
       .deadline = absl::Seconds(30),
       .on_warning = [&](const auto& line) { log.Add(line); }});
  EXPECT_EQ(admin.ListJobs().status(), absl::OkStatus());
  int broken = 0;
  for (const auto& break_files : WaysToBreak()) {
    break_files(folder);
    EXPECT_EQ(admin.ListJobs().status(), absl::OkStatus());
    EXPECT_EQ(log.Count("stay in use"), ++broken);
  }
  // The next call has the new ones, on the same object.
  WriteIdentity(folder, made.worker.authority, made.worker.own);
  EXPECT_EQ(admin.ListJobs().status().code(), StatusCode::kPermissionDenied);
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

TEST(DaemonTlsTest, RefusesAFolderOfAnotherRoleAndNamesBothRoles) {
  const Certificates& made = TheCertificates();
  const std::string join = absl::StrCat("LOCKSTEP_TLS=", made.operator_.folder);
  const ToolOutcome daemon = RunProgram(
      {"lockstepd", "--listen", "127.0.0.1:0", "--tls", made.worker.folder});
  EXPECT_NE(daemon.code, 0);
  EXPECT_THAT(daemon.output, AllOf(HasSubstr("of worker is a worker's"),
                                   HasSubstr("needs a coordinator's")));
  const ToolOutcome tool =
      RunProgram({"lockstepctl", "--address", "127.0.0.1:1", "--tls",
                  made.coordinator.folder, "jobs"});
  EXPECT_EQ(tool.code, 1);
  EXPECT_THAT(tool.output,
              AllOf(HasSubstr("is a coordinator's"),
                    HasSubstr("needs a worker's or an operator's")));
  Program worker({"/usr/bin/env", "LOCKSTEP_ADDRESS=127.0.0.1:1",
                  "LOCKSTEP_JOB=digits", "LOCKSTEP_WORLD_SIZE=1", join,
                  ProgramPath("trouble_worker"), "1"});
  EXPECT_THAT(worker.ReadAll(), AllOf(HasSubstr("FAILED_PRECONDITION"),
                                      HasSubstr("of alice is an operator's"),
                                      HasSubstr("needs a worker's")));
  worker.Wait();
}

// The launcher's certificate may be an operator's, its workers' may not.
TEST_F(TlsTest, ALauncherGivesItsWorkersCertificatesOfTheirOwn) {
  const auto run = [&](std::vector<std::string> options) {
    std::vector<std::string> command = {"lockstepctl",
                                        "--address",
                                        daemon_.address(),
                                        "--tls",
                                        made_.operator_.folder,
                                        "run",
                                        "-n",
                                        "1",
                                        "--job",
                                        "digits"};
    command.insert(command.end(), options.begin(), options.end());
    command.insert(command.end(), {"--", "/usr/bin/printenv", "LOCKSTEP_TLS"});
    return RunProgram(command);
  };
  const ToolOutcome refused = run({});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.output,
              AllOf(HasSubstr("an operator's"), HasSubstr("--worker-tls")));
  const ToolOutcome given = run({"--worker-tls", made_.worker.folder});
  EXPECT_EQ(given.code, 0) << given.output;
  EXPECT_THAT(given.output, HasSubstr(made_.worker.folder));
}

std::string AddressOf(Program* daemon) {
  return std::string(
      absl::StripPrefix(daemon->ReadLine(), "lockstepd listening on "));
}

// Outlives its coordinator's authority: the files of both sides are broken,
// then replaced by those of another authority, then both connect anew.
TEST(DaemonTlsTest, DaemonAndWorkerLiveWhileTheirFilesAreReplacedByCopying) {
  const Certificates& made = TheCertificates();
  const TestFolder scratch;
  const std::string own = scratch.File("coordinator");
  const std::string workers = scratch.File("worker");
  WriteIdentity(own, made.coordinator.authority, made.coordinator.own);
  WriteIdentity(workers, made.worker.authority, made.worker.own);
  const auto start = [&](const std::string& listen) {
    return std::make_unique<Program>(std::vector<std::string>{
        ProgramPath("lockstepd"), "--listen", listen, "--tls", own});
  };
  auto daemon = start("127.0.0.1:0");
  const std::string address = AddressOf(daemon.get());
  Program worker({"/usr/bin/env", absl::StrCat("LOCKSTEP_ADDRESS=", address),
                  "LOCKSTEP_JOB=digits", "LOCKSTEP_WORLD_SIZE=1",
                  "LOCKSTEP_WORKER_NAME=worker-0",
                  absl::StrCat("LOCKSTEP_TLS=", workers),
                  ProgramPath("trouble_worker"), "100000000", "quiet=20"});
  for (std::string line; line != "at 19";) {
    line = worker.ReadLine();
    ASSERT_NE(line, "") << worker.Errors() << daemon->Errors();
  }
  const auto count = [&](const char* text) {
    int found = 0;
    for (const auto part : absl::StrSplit(daemon->Errors(), '\n')) {
      found += absl::StrContains(part, text);
    }
    return found;
  };
  int broken = 0;
  for (const auto& break_files : WaysToBreak()) {
    break_files(own);
    break_files(workers);
    ++broken;
    ASSERT_TRUE(Eventually([&] { return count("stay in use") == broken; }))
        << daemon->Errors();
    EXPECT_EQ(List(address, made.operator_.folder), absl::OkStatus());
  }
  for (const auto& [folder, identity] :
       {std::pair{own, made.strange_coordinator},
        std::pair{workers, made.strange_worker}}) {
    const tls::TlsFiles files = tls::FilesIn(folder);
    CopyOver(files.authority, identity.authority);
    CopyOver(files.certificate, identity.own.certificate);
    CopyOver(files.key, identity.own.key);
  }
  ASSERT_TRUE(Eventually([&] { return count("have changed") == 1; }))
      << daemon->Errors();
  EXPECT_EQ(List(address, made.strange_operator.folder), absl::OkStatus());

  // The worker connects again, and only its new certificate is accepted now.
  daemon->Signal(SIGKILL);
  daemon->Wait();
  daemon = start(address);
  ASSERT_EQ(AddressOf(daemon.get()), address);
  ctl::AdminClient admin({.addresses = address,
                          .tls_folder = made.strange_operator.folder,
                          .deadline = absl::Seconds(30)});
  EXPECT_TRUE(Eventually([&] {
    const auto view = admin.DescribeJob({"digits"});
    return view.ok() && view->state == JobState::kRunning;
  })) << worker.Errors();
  EXPECT_EQ(admin.CommandJob({"digits"}, JobCommand::kStop, ""),
            absl::OkStatus());
  EXPECT_THAT(worker.ReadAll(), HasSubstr("done"));
  EXPECT_EQ(worker.Wait(), 0) << worker.Errors();
}

}  // namespace
}  // namespace lockstep::security
