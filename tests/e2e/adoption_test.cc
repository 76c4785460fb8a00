// lockstepd is killed and restarted while a job trains. It has no journal; the
// job is created again, and a new worker with a member's name joins.

#include <poll.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/tool.h"
#include "tools/launch/child.h"
#include "tools/launch/local_daemon.h"
#include "tools/launch/supervisor.h"
#include "tools/launch/worker_environment.h"

namespace lockstep::e2e {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr char kAdoptionSpec[] =
    "name: trouble\n"
    "mesh: data=2\n"
    "timeouts: {join: 60s, lease: 20s, resume: 20s}\n";

// A daemon that a test may kill.
class Daemon {
 public:
  explicit Daemon(const std::string& listen,
                  const std::vector<std::string>& flags = {})
      : child_(launch::Child::Start(
            {.argv = Argv(listen, flags), .capture_output = true})) {
    EXPECT_TRUE(child_.ok()) << child_.status();
    const std::string begins = "lockstepd listening on ";
    for (std::string line = ReadLine(); !line.empty(); line = ReadLine()) {
      if (absl::StartsWith(line, begins)) address_ = line.substr(begins.size());
      if (!address_.empty()) return;
    }
    ADD_FAILURE() << "lockstepd does not listen on " << listen;
  }

  const std::string& address() const { return address_; }
  void Kill() {
    child_->Signal(SIGKILL);
    child_->Wait();
  }

 private:
  static std::vector<std::string> Argv(const std::string& listen,
                                       const std::vector<std::string>& flags) {
    std::vector<std::string> argv = {launch::OwnFolder() + "/lockstepd",
                                     "--listen", listen};
    argv.insert(argv.end(), flags.begin(), flags.end());
    return argv;
  }

  // The next line; empty at the end of the output.
  std::string ReadLine() {
    std::string line;
    for (char c = 0; c != '\n';) {
      pollfd fd = {.fd = child_->output(), .events = POLLIN, .revents = 0};
      if (poll(&fd, 1, 60'000) != 1 || read(fd.fd, &c, 1) != 1) return "";
      if (c != '\n') line.push_back(c);
    }
    return line;
  }

  absl::StatusOr<launch::Child> child_;
  std::string address_;
};

class AdoptionE2eTest : public testing::Test {
 protected:
  AdoptionE2eTest() {
    std::string pattern = testing::TempDir() + "lockstep-adoption-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    spec_file_ = folder_ + "/spec.yaml";
    std::ofstream(spec_file_) << kAdoptionSpec;
    daemon_ = std::make_unique<Daemon>("127.0.0.1:0");
  }
  ~AdoptionE2eTest() override { std::filesystem::remove_all(folder_); }

  Outcome Ctl(std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"lockstepctl", "--address", daemon_->address()});
    return RunTool(words);
  }

  launch::ChildCommand WorkerCommand(const std::string& name,
                                     const std::string& steps,
                                     const std::string& spec_file = "") {
    return {.argv = {launch::OwnFolder() + "/trouble_worker", steps},
            .environment = launch::EnvironmentOf(
                {.address = daemon_->address(),
                 .job = "trouble",
                 .worker = name,
                 .world_size = 2,
                 .spec_file = spec_file.empty() ? spec_file_ : spec_file}),
            .capture_output = true};
  }

  // Two workers train `steps` steps; `meanwhile` is called once they do, with
  // their supervisor. They write more lines than their pipes hold, so they do
  // not end before it returns.
  void Train(
      const std::string& steps,
      const std::function<void(launch::Supervisor* supervisor)>& meanwhile) {
    bool called = false;
    launch::Supervisor supervisor(
        {.grace = absl::Seconds(20),
         .on_output = [&](const std::string& name, absl::string_view line) {
           lines_[name].emplace_back(line);
           const bool trains = name == "worker-0" && line == "at 20";
           if (trains && !std::exchange(called, true)) {
             meanwhile(&supervisor);
           }
         }});
    for (const char* name : {"worker-0", "worker-1"}) {
      ASSERT_TRUE(supervisor.Start(name, WorkerCommand(name, steps)).ok());
    }
    EXPECT_EQ(supervisor.Run(), 0);
    EXPECT_TRUE(called);
    for (const char* name : {"worker-0", "worker-1"}) {
      EXPECT_EQ(lines_[name].back(), "done");
    }
  }

  void ReplaceTheDaemon(const std::vector<std::string>& flags = {}) {
    daemon_->Kill();
    const std::string address = daemon_->address();
    daemon_.reset();
    daemon_ = std::make_unique<Daemon>(address, flags);
    ASSERT_EQ(daemon_->address(), address);
  }

  // Waits until `describe` prints `text`. Each call takes the start of a
  // program.
  void AwaitInDescription(const std::string& text) {
    Outcome outcome;
    for (int i = 0; i < 500; ++i) {
      outcome = Ctl({"describe", "trouble"});
      if (absl::StrContains(outcome.output, text)) return;
    }
    ADD_FAILURE() << text << " is not in:\n" << outcome.output;
  }

  Json AwaitAdoption() {
    for (int i = 0; i < 500; ++i) {
      const Outcome outcome = Ctl({"describe", "trouble", "--json"});
      if (outcome.code != 0) continue;
      const Json job = Json::parse(outcome.output);
      if (job["state"] != "running" || job["parameters"].empty()) continue;
      return job;
    }
    ADD_FAILURE() << "it was not adopted:\n"
                  << Ctl({"describe", "trouble"}).output;
    return {};
  }

  std::string folder_;
  std::string spec_file_;
  std::unique_ptr<Daemon> daemon_;
  std::map<std::string, std::vector<std::string>> lines_;
};

TEST_F(AdoptionE2eTest, ARunningJobOutlivesACoordinatorWithoutAJournal) {
  Train("10000", [&](launch::Supervisor*) {
    ReplaceTheDaemon();
    const Outcome created = Ctl({"create", "-f", spec_file_});
    EXPECT_TRUE(created.code == 0 || created.code == 1) << created.output;
    if (created.code != 0) {
      EXPECT_THAT(created.output, HasSubstr("job trouble runs"));
    }
    // It is refused at once, or when the running job has been adopted.
    std::vector<std::string> said;
    launch::Supervisor newcomer(
        {.on_output = [&](const std::string&, absl::string_view line) {
          said.emplace_back(line);
        }});
    ASSERT_TRUE(newcomer.Start("new", WorkerCommand("worker-1", "5")).ok());
    EXPECT_EQ(newcomer.Run(), 1);
    ASSERT_FALSE(said.empty());
    EXPECT_THAT(said.back(),
                AnyOf(HasSubstr("error FAILED_PRECONDITION: job trouble runs"),
                      HasSubstr("error ALREADY_EXISTS")));

    const Json job = AwaitAdoption();
    EXPECT_EQ(job["epoch"], 1);
    ASSERT_EQ(job["workers"].size(), 2u);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(job["workers"][rank]["name"], absl::StrCat("worker-", rank));
      EXPECT_EQ(job["workers"][rank]["rank"], rank);
      EXPECT_EQ(job["workers"][rank]["generation"], 1);
      EXPECT_EQ(job["workers"][rank]["state"], "ready");
    }
    EXPECT_EQ(job["parameters"][0]["name"], "w");
  });
  const Json job = Json::parse(Ctl({"describe", "trouble", "--json"}).output);
  EXPECT_EQ(job["state"], "completed");
}

// The workers cannot resume until all newcomers have joined.
TEST_F(AdoptionE2eTest, NewcomersThatComeFirstGiveWay) {
  const std::string other_spec_file = folder_ + "/other.yaml";
  std::ofstream(other_spec_file) << kAdoptionSpec << "seed: 4711\n";
  Train("10000", [&](launch::Supervisor* workers) {
    const auto signal_workers = [&](int signal) {
      for (const char* name : {"worker-0", "worker-1"}) {
        ASSERT_TRUE(workers->Signal(name, signal));
      }
    };
    signal_workers(SIGSTOP);
    ReplaceTheDaemon({"--adoption_window", "60s"});
    std::vector<std::string> said;
    launch::Supervisor newcomers(
        {.grace = absl::Seconds(20),
         .on_output = [&](const std::string&, absl::string_view line) {
           said.emplace_back(line);
         }});
    for (const char* name : {"worker-0", "worker-1"}) {
      ASSERT_TRUE(
          newcomers.Start(name, WorkerCommand(name, "5", other_spec_file))
              .ok());
    }
    AwaitInDescription("the job waits ");
    signal_workers(SIGCONT);
    EXPECT_EQ(newcomers.Run(), 1);
    EXPECT_EQ(said.size(), 2u);
    EXPECT_THAT(said, testing::Each(HasSubstr("FAILED_PRECONDITION: job "
                                              "trouble runs already")));
    const Json job = AwaitAdoption();
    EXPECT_EQ(job["epoch"], 1);
    EXPECT_EQ(job["workers"][0]["generation"], 1);
  });
  const Json job = Json::parse(Ctl({"describe", "trouble", "--json"}).output);
  EXPECT_EQ(job["state"], "completed");
}

TEST_F(AdoptionE2eTest, AnAdoptedJobIsOperatedAsAnyOther) {
  Train("100000000", [&](launch::Supervisor*) {
    ReplaceTheDaemon();
    AwaitAdoption();
    EXPECT_EQ(Ctl({"stop", "trouble", "--reason", "enough"}).code, 0);
  });
  EXPECT_THAT(lines_["worker-0"], Contains(testing::StartsWith("last ")));
  const Json job = Json::parse(Ctl({"describe", "trouble", "--json"}).output);
  EXPECT_EQ(job["state"], "stopped");
}

}  // namespace
}  // namespace lockstep::e2e
