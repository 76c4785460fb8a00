// Another user of this machine can neither get information about a job of
// `lockstepctl run`, nor change it.

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/file_descriptor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/tool.h"
#include "tests/support/other_user.h"
#include "tests/support/paths.h"
#include "tests/support/program.h"
#include "tools/launch/operator_token.h"

namespace lockstep::e2e {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Runs a program from the test's folder as another user.
UserOutcome RunAsStranger(std::vector<std::string> argv,
                          const std::vector<std::string>& environment) {
  argv[0] = absl::StrCat(launch::OwnFolder(), "/", argv[0]);
  return RunAs(FreeUser(), std::move(argv), environment);
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

// The process and all its descendants.
std::vector<pid_t> Family(pid_t root) {
  std::vector<pid_t> family = {root};
  for (size_t i = 0; i < family.size(); ++i) {
    const std::string task = absl::StrCat("/proc/", family[i], "/task");
    for (const std::string& thread : NamesIn(task)) {
      std::ifstream children(absl::StrCat(task, "/", thread, "/children"));
      for (pid_t child; children >> child;) family.push_back(child);
    }
  }
  return family;
}

// Restores, at the end, the environment variables that a test sets.
class SavedEnvironment {
 public:
  explicit SavedEnvironment(std::vector<std::string> names) {
    for (std::string& name : names) {
      const char* value = std::getenv(name.c_str());
      std::optional<std::string> before;
      if (value != nullptr) before = value;
      before_.emplace_back(std::move(name), std::move(before));
    }
  }
  ~SavedEnvironment() {
    for (const auto& [name, value] : before_) {
      if (value) {
        setenv(name.c_str(), value->c_str(), 1);
      } else {
        unsetenv(name.c_str());
      }
    }
  }

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

// A job of two workers under `lockstepctl run` that trains until it is stopped.
class StrangersTest : public testing::Test {
 protected:
  StrangersTest() {
    std::string pattern = testing::TempDir() + "strangers-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
    unsetenv("LOCKSTEP_TOKEN");
    unsetenv("LOCKSTEP_ADDRESS");
    launcher_.emplace(std::vector<std::string>{
        absl::StrCat(launch::OwnFolder(), "/lockstepctl"), "run", "-n", "2",
        "--job", "guarded", "--", launch::OwnFolder() + "/trouble_worker",
        "100000000"});
    while (launcher_->ReadLine() != "at 10") {
    }
    const std::vector<std::string> names = NamesIn(folder_ + "/lockstep");
    EXPECT_EQ(names.size(), 1u);
    token_file_ = absl::StrCat(folder_, "/lockstep/", names.at(0));
    address_ = std::string(absl::StripSuffix(names.at(0), ".token"));
  }
  ~StrangersTest() override {
    launcher_.reset();
    fs::remove_all(folder_);
  }

  // Runs lockstepctl as the operator who started the job, without tokens.
  Outcome Ctl(std::vector<std::string> words) {
    words.insert(words.begin(), {"lockstepctl", "--address", address_});
    return RunTool(words);
  }

  const SavedEnvironment environment_{
      {"XDG_RUNTIME_DIR", "LOCKSTEP_TOKEN", "LOCKSTEP_ADDRESS"}};
  std::string folder_;
  std::string token_file_;
  std::string address_;
  std::optional<Program> launcher_;
};

TEST_F(StrangersTest, TheUserWhoStartedTheJobOperatesIt) {
  EXPECT_THAT(Ctl({"jobs"}).output, HasSubstr("guarded"));
  EXPECT_THAT(Ctl({"describe"}).output, HasSubstr("worker-1"));
  struct stat file {};
  ASSERT_EQ(stat(token_file_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 07777, 0600u);
  ASSERT_EQ(stat((folder_ + "/lockstep").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 07777, 0700u);

  const Outcome stopped = Ctl({"stop"});
  EXPECT_EQ(stopped.code, 0) << stopped.output;
  launcher_->ReadAll();
  EXPECT_EQ(launcher_->Wait(), 0) << launcher_->Errors();
  EXPECT_FALSE(fs::exists(token_file_));
}

TEST_F(StrangersTest, WithoutATokenNothingCanBeSeenOrDone) {
  const auto access = launch::FindOperatorAccess(address_).value();
  setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"jobs"},
                                             {"describe", "guarded"},
                                             {"watch", "guarded"},
                                             {"pause", "guarded"},
                                             {"drain", "guarded"},
                                             {"stop", "guarded"},
                                             {"stop", "--now", "guarded"}}) {
    const Outcome outcome = Ctl(words);
    EXPECT_EQ(outcome.code, 3) << words[0];
    EXPECT_THAT(outcome.output, HasSubstr("has no certificates")) << words[0];
    std::vector<std::string> with_tls = words;
    with_tls.insert(with_tls.begin(), {"--tls", access.tls_folder});
    const Outcome known = Ctl(with_tls);
    EXPECT_EQ(known.code, 1) << words[0];
    EXPECT_THAT(known.output, HasSubstr("needs a token")) << words[0];
  }
}

// Another user who takes the port of a killed coordinator gets no token: the
// clients speak TLS, and this one has no certificate of theirs.
TEST_F(StrangersTest, AnImpostorOnThePortIsToldNothing) {
  for (const pid_t pid : Family(launcher_->pid())) {
    if (ContentsOf(absl::StrCat("/proc/", pid, "/comm")) == "lockstepd\n") {
      kill(pid, SIGKILL);
    }
  }
  sockaddr_in port{};
  port.sin_family = AF_INET;
  port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int number = 0;
  ASSERT_TRUE(
      absl::SimpleAtoi(address_.substr(address_.find(':') + 1), &number));
  port.sin_port = htons(static_cast<uint16_t>(number));
  const FileDescriptor impostor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(impostor.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (bind(impostor.get(), reinterpret_cast<sockaddr*>(&port),
              sizeof port) != 0) {
    ASSERT_LT(absl::Now(), deadline) << "the daemon has ended";
    absl::SleepFor(absl::Milliseconds(10));
  }
  ASSERT_EQ(listen(impostor.get(), 16), 0);
  const FileDescriptor victim(accept(impostor.get(), nullptr, nullptr));
  unsigned char first = 0;
  ASSERT_EQ(read(victim.get(), &first, 1), 1);
  EXPECT_EQ(first, 0x16) << "a handshake of TLS, and not the preface of HTTP/2";
}

// The workers' token does not operate the job.
TEST_F(StrangersTest, AWorkersTokenOperatesNothing) {
  std::string workers;
  for (const pid_t pid : Family(launcher_->pid())) {
    const std::string variables =
        ContentsOf(absl::StrCat("/proc/", pid, "/environ"));
    const size_t at = variables.find("LOCKSTEP_TOKEN=");
    if (at == std::string::npos) continue;
    workers = variables.substr(at + 15, 64);
  }
  ASSERT_EQ(workers.size(), 64u);
  EXPECT_NE(workers, launch::FindOperatorToken(address_).value());
  for (const char* call : {"describe", "stop"}) {
    const Outcome outcome = Ctl({"--token", workers, call, "guarded"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.output, HasSubstr("needs the operator's"));
  }
  // Nor does it open another job of the same coordinator.
  Program other(
      {"/usr/bin/env", "LOCKSTEP_ADDRESS=" + address_,
       "LOCKSTEP_TOKEN=" + workers, "LOCKSTEP_JOB=other",
       "LOCKSTEP_TLS=" +
           launch::FindOperatorAccess(address_).value().worker_tls_folder,
       "LOCKSTEP_WORLD_SIZE=1", launch::OwnFolder() + "/trouble_worker", "3"});
  EXPECT_THAT(other.ReadLine(), HasSubstr("UNAUTHENTICATED"));
}

TEST_F(StrangersTest, AnotherUserCanDoNothingToTheJob) {
  if (!CanBeAnotherUser()) GTEST_SKIP() << "only root can become another user";
  // The stranger knows the address and all names; HOME and the runtime folder
  // are those of the job's owner.
  const std::vector<std::string> environment = {"HOME=/root",
                                                "XDG_RUNTIME_DIR=" + folder_,
                                                "LOCKSTEP_ADDRESS=" + address_,
                                                "LOCKSTEP_JOB=guarded",
                                                "LOCKSTEP_WORKER_NAME=worker-0",
                                                "LOCKSTEP_WORLD_SIZE=2"};
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{
           {"lockstepctl", "jobs"},
           {"lockstepctl", "describe", "guarded"},
           {"lockstepctl", "stop", "--now", "guarded"}}) {
    const UserOutcome outcome = RunAsStranger(words, environment);
    EXPECT_NE(outcome.code, 0) << words[1];
    EXPECT_THAT(outcome.output, Not(HasSubstr("worker-1"))) << words[1];
  }
  std::vector<std::string> no_folders = environment;
  no_folders.erase(no_folders.begin(), no_folders.begin() + 2);
  EXPECT_THAT(
      RunAsStranger({"lockstepctl", "stop", "guarded"}, no_folders).output,
      HasSubstr("has no certificates"));

  // The job has not noticed it.
  const Outcome view = Ctl({"describe"});
  EXPECT_THAT(view.output, AllOf(HasSubstr("running"), HasSubstr("epoch 1")));
}

TEST_F(StrangersTest, AnotherUserReadsNeitherTokensNorGradients) {
  if (!CanBeAnotherUser()) GTEST_SKIP() << "only root can become another user";
  const std::string token = launch::FindOperatorToken(address_).value();
  ASSERT_EQ(token.size(), 64u);
  const auto can_open = [](const std::string& path) {
    return CallAs(FreeUser(), [&] {
             return open(path.c_str(), O_RDONLY | O_NONBLOCK) >= 0 ? 1 : 0;
           }) == 1;
  };
  EXPECT_TRUE(can_open("/proc/self/status")) << "the test can tell";
  EXPECT_FALSE(can_open(token_file_));
  const auto access = launch::FindOperatorAccess(address_).value();
  for (const std::string& folder :
       {access.tls_folder, access.worker_tls_folder}) {
    EXPECT_TRUE(fs::exists(folder + "/tls.key"));
    EXPECT_FALSE(can_open(folder + "/tls.key"));
  }

  const std::vector<pid_t> family = Family(launcher_->pid());
  EXPECT_EQ(family.size(), 4u) << "a launcher, a daemon and two workers";
  int segments = 0;
  for (const pid_t pid : family) {
    const std::string process = absl::StrCat("/proc/", pid);
    EXPECT_FALSE(can_open(process + "/environ"));
    EXPECT_FALSE(can_open(process + "/mem"));
    EXPECT_FALSE(can_open(process + "/fd"));
    // Every user can read a command line.
    const std::string command = ContentsOf(process + "/cmdline");
    EXPECT_THAT(command, Not(HasSubstr(token)));
    for (const std::string& fd : NamesIn(process + "/fd")) {
      std::error_code none;
      const std::string file = absl::StrCat(process, "/fd/", fd);
      if (!absl::StrContains(fs::read_symlink(file, none).string(), "memfd:")) {
        continue;
      }
      ++segments;
      EXPECT_FALSE(can_open(file)) << file;
    }
  }
  EXPECT_GT(segments, 0) << "the workers share memory";
}

}  // namespace
}  // namespace lockstep::e2e
