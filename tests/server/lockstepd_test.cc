// The daemon as a program: its output, its service, its refusals, and its
// shutdown.

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/file_system.h"
#include "base/secret_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/client.h"
#include "tests/server/rpc/raw_connection.h"
#include "tests/server/scripted_worker.h"
#include "tests/support/paths.h"
#include "tests/support/program.h"

namespace lockstep::rpc {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

std::vector<std::string> Command(std::vector<std::string> flags) {
  flags.insert(flags.begin(), ProgramPath("lockstepd"));
  return flags;
}

// A daemon on a free port.
class Lockstepd {
 public:
  explicit Lockstepd(std::vector<std::string> flags = {})
      : process_(Command(AndAFreePort(std::move(flags)))) {
    absl::string_view line = first_line_ = process_.ReadLine();
    EXPECT_TRUE(absl::ConsumePrefix(&line, "lockstepd listening on "))
        << first_line_ << process_.Errors();
    address_ = std::string(line);
  }

  const std::string& address() const { return address_; }
  Program& process() { return process_; }
  int Stop(int signal = SIGTERM) {
    process_.Signal(signal);
    return process_.Wait();
  }
  size_t Threads() const {
    const std::string tasks = absl::StrCat("/proc/", process_.pid(), "/task");
    return std::distance(std::filesystem::directory_iterator(tasks),
                         std::filesystem::directory_iterator());
  }

 private:
  static std::vector<std::string> AndAFreePort(std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--listen", "127.0.0.1:0"});
    return flags;
  }

  Program process_;
  std::string first_line_;
  std::string address_;
};

// The errors and the exit status of a daemon that refuses to start.
int Refused(const std::vector<std::string>& flags, std::string* errors) {
  Program process(Command(flags));
  const int result = process.Wait();
  EXPECT_EQ(process.ReadAll(), "");
  *errors = process.Errors();
  return result;
}

std::string TempPath(const std::string& name) {
  return absl::StrCat(testing::TempDir(), "lockstepd-", getpid(), "-", name);
}

// --- Serving ----------------------------------------------------------------

TEST(LockstepdTest, ServesAJobAndItsHealthAndItsServices) {
  Lockstepd daemon;
  const auto channel = ChannelTo(daemon.address());
  StreamLine line(channel);
  std::vector<ScriptedWorker> workers;
  workers.emplace_back(&line, SpecOf("digits", 1), "worker-0");
  JoinAndStart(channel, "digits", &workers);
  EXPECT_TRUE(IsServing(channel).value());
  EXPECT_THAT(ListServices(channel).value(),
              HasSubstr("lockstep.v1.Coordinator"));
  EXPECT_THAT(daemon.process().Errors(), HasSubstr("job digits: "));
}

// Secrets derive from a random seed of each daemon.
TEST(LockstepdTest, GivesSecretsThatNoOtherDaemonGives) {
  std::set<std::string> secrets;
  for (int i = 0; i < 2; ++i) {
    Lockstepd daemon;
    const auto channel = ChannelTo(daemon.address());
    StreamLine line(channel);
    ScriptedWorker worker(&line, SpecOf("digits", 2), "worker-0");
    worker.PostHello();
    const std::string secret = worker.Next<protocol::Welcome>().secret;
    EXPECT_EQ(secret.size(), 64u);
    EXPECT_TRUE(secrets.insert(secret).second);
  }
}

TEST(LockstepdTest, ThePortFileHoldsTheAddress) {
  PosixFileSystem files;
  const std::string path = TempPath("port");
  Lockstepd daemon({"--port_file", path});
  EXPECT_EQ(ReadWhole(&files, path).value(), daemon.address() + "\n");
  EXPECT_TRUE(files.Remove(path).ok());
}

TEST(LockstepdTest, ItsFlagsAreItsLimits) {
  Lockstepd daemon(
      {"--jobs_max",           "1",    "--workers_max",          "2",
       "--parameters_max",     "3",    "--joins_per_second",     "4",
       "--client_bytes_max",   "5MiB", "--message_bytes_max",    "6MiB",
       "--connections_max",    "7",    "--hello_streams_max",    "8",
       "--hello_timeout",      "9s",   "--connection_bytes_max", "10MiB",
       "--incoming_bytes_max", "11MiB"});
  const auto admin = v1::Admin::NewStub(ChannelTo(daemon.address()));
  v1::ListLimitsResponse response;
  grpc::ClientContext call;
  SetDeadline(&call);
  ASSERT_TRUE(admin->ListLimits(&call, {}, &response).ok());
  std::map<std::string, int64_t> limits;
  for (const v1::LimitUse& use : response.limits()) {
    limits[use.name()] = use.value();
  }
  const std::map<std::string, int64_t> given = {{"jobs", 1},
                                                {"workers_per_job", 2},
                                                {"parameters_per_job", 3},
                                                {"joins_per_second", 4},
                                                {"registration_bytes", 5 << 20},
                                                {"unread_bytes", 5 << 20},
                                                {"unread_messages", 1024},
                                                {"message_bytes", 6 << 20},
                                                {"connection_bytes", 10 << 20},
                                                {"incoming_bytes", 11 << 20},
                                                {"connections", 7},
                                                {"streams_without_hello", 8},
                                                {"hello_seconds", 9}};
  EXPECT_EQ(limits, given);
}

TEST(LockstepdTest, WantsTheTokenOfItsFile) {
  PosixFileSystem files;
  const std::string path = TempPath("token");
  ASSERT_TRUE(WriteSecretFile(path, "secret").ok());
  Lockstepd daemon({"--token_file", path});
  const auto channel = ChannelTo(daemon.address());
  EXPECT_EQ(Fetch(channel, "j", "d").status().code(),
            StatusCode::kUnauthenticated);
  EXPECT_EQ(Fetch(channel, "j", "d", "secret").status().code(),
            StatusCode::kNotFound);
  EXPECT_TRUE(files.Remove(path).ok());
}

TEST(LockstepdTest, ThreadsDoNotGrowWithWorkers) {
  constexpr int kWorkers = 200;
  Lockstepd daemon;
  const auto channel = ChannelTo(daemon.address());
  std::vector<std::unique_ptr<StreamLine>> lines;
  const auto join = [&](int rank) {
    lines.push_back(std::make_unique<StreamLine>(channel));
    ScriptedWorker worker(lines.back().get(), SpecOf("crowd", kWorkers + 1),
                          absl::StrCat("worker-", rank));
    worker.PostHello();
    worker.Next<protocol::Welcome>();
  };
  for (int rank = 0; rank < 20; ++rank) join(rank);  // all pools are allocated
  const size_t before = daemon.Threads();
  for (int rank = 20; rank < kWorkers; ++rank) join(rank);
  EXPECT_LE(daemon.Threads(), before + 4);
}

// An address of this machine at which no other test listens: a port that was
// freed there stays free.
std::string OwnLoopback() {
  const int pid = getpid();
  return absl::StrCat("127.", 1 + pid % 250, ".", pid / 250 % 250, ".1");
}

// Workers of a coordinator that was killed find the next one only at the same
// port.
TEST(LockstepdTest, WaitsForRunningJobsIfItsPortIsKnown) {
  const auto said = [](const std::vector<std::string>& flags) {
    Program process(Command(flags));
    const std::string address = process.ReadLine();
    EXPECT_THAT(address, HasSubstr("lockstepd listening on "));
    process.Signal(SIGTERM);
    EXPECT_EQ(process.Wait(), 0);
    return absl::StrCat(absl::StripPrefix(address, "lockstepd listening on "),
                        " ", process.Errors());
  };
  const std::string free =
      said({"--listen", absl::StrCat(OwnLoopback(), ":0")});
  EXPECT_THAT(free, testing::Not(HasSubstr("no job forms")));
  const std::string known = free.substr(0, free.find_first_of(" \n"));
  EXPECT_THAT(said({"--listen", known}), HasSubstr("for 2s no job forms"));
  EXPECT_THAT(said({"--listen", known, "--adoption_window", "0"}),
              testing::Not(HasSubstr("no job forms")));
  EXPECT_THAT(said({"--listen", "127.0.0.1:0", "--adoption_window", "1m30s"}),
              HasSubstr("for 1m30s no job forms"));
}

// --- Without free descriptors -----------------------------------------------

// A daemon with `limit` descriptors.
std::vector<std::string> WithFewFiles(int limit) {
  return {"/bin/sh",
          "-c",
          absl::StrCat("ulimit -n ", limit, "; exec \"$@\""),
          "sh",
          ProgramPath("lockstepd"),
          "--listen",
          "127.0.0.1:0"};
}

TEST(LockstepdTest, OutOfDescriptorsItRefusesAndThenAcceptsAgain) {
  Program daemon(WithFewFiles(40));
  const std::string first_line = daemon.ReadLine();
  absl::string_view line = first_line;
  ASSERT_TRUE(absl::ConsumePrefix(&line, "lockstepd listening on "))
      << daemon.Errors();
  const std::string address(line);
  StreamLine stream(ChannelTo(address));
  ScriptedWorker worker(&stream, SpecOf("digits", 1), "worker-0");
  worker.PostHello();

  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 60; ++i) {
    strangers.push_back(ConnectTo(ParseAddress(address).value()));
  }
  EXPECT_TRUE(IsClosedByPeer(strangers.back()));
  EXPECT_THAT(daemon.Errors(), HasSubstr("32 of 40 file descriptors"));
  worker.Register();  // existing sessions continue
  EXPECT_NE(worker.AwaitPlan(), "");

  strangers.clear();
  const auto later = ChannelTo(address);
  ASSERT_TRUE(later->WaitForConnected(std::chrono::system_clock::now() +
                                      std::chrono::seconds(60)));
  EXPECT_TRUE(IsServing(later).value());
  EXPECT_THAT(daemon.Errors(), HasSubstr("accepted again"));
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
}

// --- Refusing to start ------------------------------------------------------

TEST(LockstepdTest, APortInUseIsOneLineThatNamesIt) {
  Lockstepd daemon;
  std::string errors;
  EXPECT_EQ(Refused({"--listen", daemon.address()}, &errors), 1);
  EXPECT_THAT(errors, HasSubstr(daemon.address()));
  EXPECT_THAT(
      absl::StrSplit(absl::StripSuffix(errors, "\n"), '\n').begin()->size(),
      errors.size() - 1);
}

TEST(LockstepdTest, PlaintextForOthersMustBeMeant) {
  std::string errors;
  EXPECT_EQ(Refused({"--listen", "0.0.0.0:0"}, &errors), 1);
  EXPECT_THAT(errors, HasSubstr("--insecure"));
}

TEST(LockstepdTest, WrongFlagsAreUsageErrors) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--no_such_flag"},
      {"--listen", "nowhere"},
      {"--journal", "paper"},
      {"--log_level", "loud"},
      {"--adoption_window", "soon"},
      {"--adoption_window", "-2s"},
      {"--adoption_window", "inf"},
      {"--jobs_max", "0"},
      {"--connections_max", "many"},
      {"--client_bytes_max", "-1"},
      {"--message_bytes_max", "1KiB"},
      {"--connection_bytes_max", "1KiB"},
      {"--hello_timeout", "1ms"},
      {"--token_file", "/no/such/file"}};
  for (const auto& flags : wrong) {
    std::string errors;
    EXPECT_EQ(Refused(flags, &errors), 2) << flags[0];
    EXPECT_THAT(errors, HasSubstr(flags.back())) << flags[0];
  }
}

TEST(LockstepdTest, ATokenFileThatOthersCanReadIsRefused) {
  PosixFileSystem files;
  const std::string path = TempPath("token");
  ASSERT_TRUE(WriteSecretFile(path, "secret").ok());
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  std::string errors;
  EXPECT_EQ(Refused({"--token_file", path}, &errors), 2);
  EXPECT_THAT(errors, testing::AllOf(HasSubstr(path), HasSubstr("0644")));
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  EXPECT_EQ(Refused({"--worker_token_file", path}, &errors), 2);
  EXPECT_THAT(errors, HasSubstr("--token_file"));
  EXPECT_TRUE(files.Remove(path).ok());
}

TEST(LockstepdTest, APortFileThatCannotBeWrittenIsAnError) {
  std::string errors;
  EXPECT_EQ(Refused({"--listen", "127.0.0.1:0", "--port_file",
                     "/no/such/folder/port"},
                    &errors),
            1);
  EXPECT_THAT(errors, HasSubstr("/no/such/folder/port"));
}

TEST(LockstepdTest, TellsItsVersion) {
  Program process(Command({"--version"}));
  EXPECT_TRUE(absl::StartsWith(process.ReadLine(), "lockstepd 0."));
  EXPECT_EQ(process.Wait(), 0);
}

// --- Shutdown ---------------------------------------------------------------

TEST(LockstepdTest, SignalsEndItInOrder) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Lockstepd daemon;
    StreamLine line(ChannelTo(daemon.address()));
    ScriptedWorker worker(&line, SpecOf("digits", 2), "worker-0");
    worker.PostHello();
    worker.Next<protocol::Welcome>();
    EXPECT_EQ(daemon.Stop(signal), 0);
    EXPECT_EQ(line.Finish().code(), StatusCode::kUnavailable);
  }
}

TEST(LockstepdTest, HealthSaysSoFirst) {
  Lockstepd daemon;
  const auto channel = ChannelTo(daemon.address());
  HealthWatch health(channel);
  EXPECT_EQ(health.Next(), "\x08\x01");
  daemon.process().Signal(SIGTERM);
  EXPECT_EQ(health.Next(), "\x08\x02");
  EXPECT_EQ(daemon.process().Wait(), 0);
}

// There is no etcd at that port.
TEST(LockstepdTest, OneThatWaitsUntilItLeadsIsAliveAndDoesNotServe) {
  Program daemon({ProgramPath("lockstepd"), "--listen", "127.0.0.1:0",
                  "--health_address", "127.0.0.1:0", "--journal",
                  "etcd://127.0.0.1:1/lockstep/test"});
  const absl::Time end = absl::Now() + absl::Minutes(1);
  while (!absl::StrContains(daemon.Errors(), "no member of etcd answers")) {
    ASSERT_LT(absl::Now(), end) << daemon.Errors();
    absl::SleepFor(absl::Milliseconds(10));
  }
  const std::vector<std::string> words =
      absl::StrSplit(daemon.Errors(), absl::ByAnyChar(" \n"));
  const auto told = std::find(words.begin(), words.end(), "told");
  ASSERT_LT(told + 2, words.end()) << daemon.Errors();
  const auto channel = ChannelTo(*(told + 2));  // "told on ADDRESS"
  EXPECT_FALSE(IsServing(channel).value());
  EXPECT_TRUE(IsServing(channel, "alive").value());
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
}

// It neither waits for ever for workers that do not read, nor lets them
// continue.
TEST(LockstepdTest, AWorkerThatDoesNotReadDoesNotKeepIt) {
  Lockstepd daemon;
  StreamLine line(ChannelTo(daemon.address()));
  JobSpec spec = SpecOf("digits", 2);
  for (int i = 0; i < 1000; ++i) {
    spec.workers.push_back(absl::StrCat("worker-with-a-long-name-", i));
  }
  spec.mesh.axes[0].size = 1000;
  ScriptedWorker worker(&line, spec, spec.workers[0]);
  for (int i = 0; i < 400; ++i) worker.PostHello();  // 12 MB of Welcomes
  EXPECT_EQ(daemon.Stop(), 0);
}

}  // namespace
}  // namespace lockstep::rpc
