// lockstepctl and lockstepd from an operator's view: exit codes, messages, and
// the output of `describe` while a job trains.

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/cpu_affinity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/operated.h"

namespace lockstep::e2e {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

constexpr char kSpec[] =
    "name: trouble\n"
    "mesh: data=2\n"
    "timeouts: {join: 60s, lease: 5s}\n";

// Runs a daemon for each test, whose only "worker" is the test itself.
class CtlTest : public OperatedTest {
 protected:
  CtlTest() : OperatedTest(kSpec) {}
};

TEST(CtlUsageTest, WrongUsageExitsWithTwo) {
  EXPECT_EQ(RunTool({"lockstepctl"}).code, 2);
  EXPECT_EQ(RunTool({"lockstepctl", "frobnicate"}).code, 2);
  EXPECT_EQ(RunTool({"lockstepctl", "jobs", "--frobnicate"}).code, 2);
  EXPECT_EQ(RunTool({"lockstepctl", "run", "-n", "0", "--", "true"}).code, 2);
  EXPECT_EQ(RunTool({"lockstepctl", "create"}).code, 2);
  EXPECT_EQ(RunTool({"lockstepctl", "--help"}).code, 0);
  EXPECT_EQ(RunTool({"lockstepctl", "--version"}).code, 0);
}

TEST(CtlUsageTest, ACoordinatorThatIsNotThereExitsWithThree) {
  const Outcome outcome =
      RunTool({"lockstepctl", "--address", "127.0.0.1:1", "jobs"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.output, HasSubstr("127.0.0.1:1"));
}

TEST_F(CtlTest, CreatesListsAndDescribesAJob) {
  EXPECT_EQ(Ctl({"describe"}).code, 1) << "there is no job";
  EXPECT_EQ(Ctl({"create", "-f", cluster_.File("spec.yaml")}).code, 0);
  EXPECT_THAT(Ctl({"jobs"}).output, HasSubstr("trouble"));

  const Json jobs = Json::parse(Ctl({"jobs", "--json"}).output);
  ASSERT_EQ(jobs["jobs"].size(), 1u);
  EXPECT_EQ(jobs["jobs"][0]["name"], "trouble");
  EXPECT_EQ(jobs["jobs"][0]["world_size"], 2);

  const Json job = Json::parse(Ctl({"describe", "--json"}).output);
  EXPECT_EQ(job["state"], "forming");
  EXPECT_EQ(job["mesh"], "data=2");
  EXPECT_EQ(job["missing"], 2);
  EXPECT_EQ(Ctl({"describe", "nobody"}).code, 1);
}

TEST_F(CtlTest, AMalformedSpecIsRefusedWithLineAndField) {
  const struct {
    const char* spec;
    const char* line;
    const char* field;
  } cases[] = {
      {"name: x\nmesh: data=0\n", ":2", "mesh"},
      {"name: x\nmesh: data=2\ncolour: red\n", ":3", "colour"},
      {"name: x\nmesh: data=2\nname: y\n", ":3", "name"},
      {"name: x\nmesh: data=2\ntimeouts: {lease: soon}\n", ":3",
       "timeouts.lease"},
      {"name: x\nmesh: [\n", ":", ""},
      {"{\"name\": \"x\",\n \"mesh\": {\"data\": \"two\"}}", ":2", "mesh"},
  };
  for (const auto& c : cases) {
    cluster_.WriteFile("bad.yaml", c.spec);
    const Outcome outcome = Ctl({"create", "-f", cluster_.File("bad.yaml")});
    EXPECT_EQ(outcome.code, 1) << c.spec;
    EXPECT_THAT(
        outcome.output,
        AllOf(HasSubstr(std::string("bad.yaml") + c.line), HasSubstr(c.field)))
        << c.spec;
  }
  EXPECT_EQ(Ctl({"create", "-f", cluster_.File("none.yaml")}).code, 1);
}

TEST_F(CtlTest, AnotherSpecOfTheSameNameIsRefused) {
  EXPECT_EQ(Ctl({"create", "-f", cluster_.File("spec.yaml")}).code, 0);
  EXPECT_EQ(Ctl({"create", "-f", cluster_.File("spec.yaml")}).code, 0)
      << "the same again";
  cluster_.WriteFile("other.yaml", "name: trouble\nmesh: data=3\n");
  const Outcome outcome = Ctl({"create", "-f", cluster_.File("other.yaml")});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("mesh"));
}

TEST_F(CtlTest, DescribesAJobThatTrainsAndStopsIt) {
  bool stopped = false;
  cluster_.on_line = [&](const std::string& name, const std::string& line) {
    if (name != "worker-0" || line != "at 20" || std::exchange(stopped, true))
      return;
    const Json job = Json::parse(Ctl({"describe", "trouble", "--json"}).output);
    EXPECT_EQ(job["state"], "running");
    ASSERT_EQ(job["workers"].size(), 2u);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(job["workers"][rank]["name"], "worker-" + std::to_string(rank));
      EXPECT_EQ(job["workers"][rank]["rank"], rank);
      EXPECT_EQ(job["workers"][rank]["state"], "ready");
    }
    EXPECT_EQ(job["parameters"][0]["name"], "w");
    EXPECT_EQ(job["buckets"].size(), 1u);
    EXPECT_EQ(Ctl({"stop", "--now", "--reason", "enough is enough"}).code, 0);
  };
  cluster_.Start({"worker-0", {"100000000"}});
  cluster_.Start({"worker-1", {"100000000"}});
  EXPECT_EQ(cluster_.Run(), 1);
  for (const char* worker : {"worker-0", "worker-1"}) {
    EXPECT_THAT(
        cluster_.LastLine(worker),
        AllOf(StartsWith("error CANCELLED"), HasSubstr("enough is enough")));
  }
}

TEST_F(CtlTest, WatchFollowsAJobToItsEnd) {
  bool watched = false;
  Outcome watch;
  cluster_.on_line = [&](const std::string& name, const std::string& line) {
    if (name != "worker-0" || line != "at 0" || std::exchange(watched, true))
      return;
    Ctl({"stop", "--now"});
    watch = Ctl({"watch"});
  };
  cluster_.Start({"worker-0", {"100000000"}});
  cluster_.Start({"worker-1", {"100000000"}});
  EXPECT_EQ(cluster_.Run(), 1);
  EXPECT_EQ(watch.code, 0);
  EXPECT_THAT(watch.output, HasSubstr("stopped"));
}

TEST(LauncherTest, RunsAJobUnderAPrivateCoordinator) {
  const std::string worker = launch::OwnFolder() + "/trouble_worker";
  EXPECT_EQ(RunTool({"lockstepctl", "run", "-n", "3", "--", worker, "10"}).code,
            0);
  const Outcome killed = RunTool({"lockstepctl", "run", "-n", "2", "--label",
                                  "--", worker, "1000", "die=3"});
  EXPECT_EQ(killed.code, 128 + SIGKILL);
  EXPECT_THAT(killed.output, HasSubstr("killed by signal 9"));
}

// Runs the command that it prints, in another terminal; and the same command
// without the address.
TEST(LauncherTest, SaysWhereThePrivateCoordinatorIs) {
  std::string folder = testing::TempDir() + "launcher-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  ASSERT_EQ(setenv("XDG_RUNTIME_DIR", folder.c_str(), 1), 0);
  std::string address;
  bool asked = false;
  launch::Supervisor supervisor(
      {.on_output = [&](const std::string&, absl::string_view line) {
        constexpr absl::string_view kCommand = "lockstepctl --address ";
        if (const size_t at = line.find(kCommand); at != line.npos) {
          EXPECT_THAT(std::string(line),
                      HasSubstr("job private has a private coordinator"));
          address = std::string(line.substr(at + kCommand.size()));
          ASSERT_TRUE(absl::EndsWith(address, " describe"));
          address.resize(address.rfind(' '));
        }
        if (!absl::StrContains(line, "at 20") || std::exchange(asked, true)) {
          return;
        }
        std::vector<std::string> words = {"lockstepctl", "--address", address,
                                          "describe"};
        EXPECT_THAT(RunTool(words).output, StartsWith("job private"));
        const Outcome elsewhere =
            RunTool({"lockstepctl", "--address", "127.0.0.1:1", "jobs"});
        EXPECT_EQ(elsewhere.code, 3);
        EXPECT_THAT(elsewhere.output,
                    HasSubstr("job private has a private coordinator: give "
                              "--address " +
                              address));
        words.back() = "stop";
        EXPECT_EQ(RunTool(words).code, 0);
      }});
  ASSERT_TRUE(supervisor
                  .Start("launcher",
                         {.argv = {launch::OwnFolder() + "/lockstepctl", "run",
                                   "-n", "2", "--job", "private", "--",
                                   launch::OwnFolder() + "/trouble_worker",
                                   "100000000", "quiet=30"},
                          .environment = {{"LOCKSTEP_ADDRESS", ""}},
                          .capture_output = true})
                  .ok());
  EXPECT_EQ(supervisor.Run(), 0);
  EXPECT_TRUE(asked);
  unsetenv("XDG_RUNTIME_DIR");
  std::filesystem::remove_all(folder);
}

TEST(LauncherTest, NumbersTheWorkersOfAHostForTheirGpus) {
  const Outcome run = RunTool({"lockstepctl", "run", "-n", "2", "--label", "--",
                               "sh", "-c", "echo rank $LOCAL_RANK"});
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.output, AllOf(HasSubstr("[worker-0] rank 0\n"),
                                HasSubstr("[worker-1] rank 1\n")));
}

TEST(LauncherTest, BindsEachWorkerToItsShareOfTheCores) {
  const std::optional<cpu_set_t> cores = AllowedCores();
  ASSERT_TRUE(cores.has_value());
  const std::vector<std::string> script = {"--", "sh", "-c",
                                           "echo $(nproc) of $LOCAL_RANK"};
  for (const std::string how : {"core", "none"}) {
    std::vector<std::string> words = {"lockstepctl", "run",    "-n", "2",
                                      "--label",     "--bind", how};
    words.insert(words.end(), script.begin(), script.end());
    const Outcome run = RunTool(words);
    EXPECT_EQ(run.code, 0) << run.output;
    for (int worker = 0; worker < 2; ++worker) {
      const cpu_set_t share =
          how == "core" ? ShareOfCores(*cores, worker, 2) : *cores;
      EXPECT_THAT(run.output,
                  HasSubstr(absl::StrFormat("[worker-%d] %d of %d\n", worker,
                                            CPU_COUNT(&share), worker)));
    }
  }
  const Outcome wrong = RunTool(
      {"lockstepctl", "run", "-n", "1", "--bind", "socket", "--", "true"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.output, HasSubstr("--bind"));
}

// A job is named after what is trained, not after the program.
TEST_F(CtlTest, TheLauncherTakesTheJobsNameFromItsSpec) {
  const std::string worker = launch::OwnFolder() + "/trouble_worker";
  const Outcome run = Ctl(
      {"run", "-n", "2", "-f", cluster_.File("spec.yaml"), "--", worker, "3"});
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_EQ(Json::parse(Ctl({"describe", "trouble", "--json"}).output)["state"],
            "completed");
}

// It does so before any worker starts, and once.
TEST_F(CtlTest, TheLauncherRefusesASpecInOneLine) {
  const std::string worker = launch::OwnFolder() + "/trouble_worker";
  cluster_.WriteFile("bad.yaml", "name: trouble\nmesh: data=2\ncolour: red\n");
  const struct {
    std::string workers;
    std::string file;
    std::string said;
  } cases[] = {{"2", "bad.yaml", "bad.yaml:3"}, {"3", "spec.yaml", "2 ranks"}};
  for (const auto& c : cases) {
    const Outcome run = Ctl({"run", "-n", c.workers, "-f",
                             cluster_.File(c.file), "--", worker, "3"});
    EXPECT_EQ(run.code, 2);
    EXPECT_THAT(run.output, AllOf(StartsWith("lockstepctl: "),
                                  HasSubstr(c.said), EndsWith("\n")));
    EXPECT_EQ(std::count(run.output.begin(), run.output.end(), '\n'), 1)
        << run.output;
  }
  EXPECT_EQ(Ctl({"describe"}).code, 1) << "there is no job";
}

// The coordinator has the spec, so no -f is needed.
TEST_F(CtlTest, TheLauncherTakesTheSpecOfTheJobThatExists) {
  const std::string worker = launch::OwnFolder() + "/trouble_worker";
  cluster_.WriteFile("neg.yaml",
                     "name: neg\nmesh: data=2\nlimits: {max_restarts: 3}\n");
  EXPECT_EQ(Ctl({"create", "-f", cluster_.File("neg.yaml")}).code, 0);
  const Outcome other = Ctl({"run", "-n", "3", "--job", "neg", "--", worker});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.output, HasSubstr("mesh data=2 of job neg"));
  EXPECT_EQ(std::count(other.output.begin(), other.output.end(), '\n'), 1)
      << other.output;
  const Outcome run =
      Ctl({"run", "-n", "2", "--job", "neg", "--", worker, "3"});
  EXPECT_EQ(run.code, 0) << run.output;
  const Json job = Json::parse(Ctl({"describe", "neg", "--json"}).output);
  EXPECT_EQ(job["state"], "completed");
  EXPECT_EQ(Ctl({"run", "-n", "2", "--job", "neg", "--", worker, "3"}).code, 0)
      << "the job is over and gives its name away";
  EXPECT_EQ(Ctl({"describe"}).code, 1) << "neg or neg#1";
  EXPECT_EQ(Ctl({"create", "-f", cluster_.File("spec.yaml")}).code, 0);
  EXPECT_THAT(Ctl({"describe"}).output, StartsWith("job trouble"))
      << "the only one that is not over";
}

TEST_F(CtlTest, TextThatIsNotUtf8IsRefusedOrReplaced) {
  const Outcome token = Ctl({"--token", "a\xff", "jobs"});
  EXPECT_EQ(token.code, 2);
  EXPECT_EQ(token.output,
            "lockstepctl: --token: the token holds bytes that are not UTF-8\n");
  const Outcome reason = Ctl({"stop", "none", "--reason", "a\xff"});
  EXPECT_EQ(reason.code, 1);
  EXPECT_EQ(reason.output, "lockstepctl: there is no job none here\n");
}

// The first run of worker-1 dies at step 3; the next one trains to the end.
std::vector<std::string> DiesOnce() {
  const std::string worker = launch::OwnFolder() + "/trouble_worker";
  return {"--", "sh", "-c",
          "case $LOCKSTEP_RESTART_COUNT$LOCKSTEP_WORKER_NAME in "
          "0worker-1) exec " +
              worker +
              " 1000000 quiet=0 die=3;; "
              "0*) exec " +
              worker +
              " 1000000 quiet=0;; "
              "*) exec " +
              worker + " 5;; esac"};
}

TEST_F(CtlTest, TheLauncherRestartsTheWorkersAndTheyFormTheNextEpoch) {
  std::vector<std::string> words = {
      "run", "-n", "2", "--restarts", "2", "-f", cluster_.File("spec.yaml")};
  for (const std::string& word : DiesOnce()) words.push_back(word);
  const Outcome run = Ctl(words);
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output,
              AllOf(HasSubstr("killed by signal 9"),
                    HasSubstr("restart 1 of 2"), Not(HasSubstr("restart 2"))));
  const Json job = Json::parse(Ctl({"describe", "trouble", "--json"}).output);
  EXPECT_EQ(job["state"], "completed");
  EXPECT_EQ(job["epoch"], 2);
}

TEST_F(CtlTest, TheLaunchersOfTwoNodesStartOneJob) {
  std::vector<std::string> argv = {launch::OwnFolder() + "/lockstepctl",
                                   "--address",
                                   cluster_.address(),
                                   "run",
                                   "-n",
                                   "2",
                                   "--nodes",
                                   "2",
                                   "--node-rank",
                                   "0",
                                   "--restarts",
                                   "1"};
  for (const std::string& word : DiesOnce()) argv.push_back(word);
  for (const std::string node : {"0", "1"}) {
    argv[9] = node;
    ASSERT_TRUE(
        cluster_.supervisor()
            .Start("node-" + node, {.argv = argv, .capture_output = true})
            .ok());
  }
  EXPECT_EQ(cluster_.Run(), 0);
  for (const char* node : {"node-0", "node-1"}) {
    EXPECT_EQ(std::count(cluster_.Lines(node).begin(),
                         cluster_.Lines(node).end(), "done"),
              2)
        << node << " restarts, too, when a worker of the other has died";
  }
}

TEST(LauncherTest, RestartsUsedUpAreAFailure) {
  const std::string worker = launch::OwnFolder() + "/trouble_worker";
  const Outcome run =
      RunTool({"lockstepctl", "run", "-n", "2", "--restarts", "1", "--", "sh",
               "-c", "exec " + worker + " 1000000 quiet=0 die=3"});
  EXPECT_EQ(run.code, 128 + SIGKILL);
  EXPECT_THAT(run.output,
              AllOf(HasSubstr("restart 1 of 1"), HasSubstr("no restart")));
}

TEST_F(CtlTest, TheLauncherRestartsNobodyOfAJobThatIsOver) {
  const std::string worker = launch::OwnFolder() + "/trouble_worker";
  std::vector<std::string> argv = {launch::OwnFolder() + "/lockstepctl",
                                   "--address",
                                   cluster_.address(),
                                   "run",
                                   "-n",
                                   "2",
                                   "--restarts",
                                   "3",
                                   "-f",
                                   cluster_.File("spec.yaml"),
                                   "--",
                                   worker,
                                   "100000000",
                                   "quiet=30"};
  bool stopped = false;
  cluster_.on_line = [&](const std::string&, const std::string& line) {
    if (line != "at 20" || std::exchange(stopped, true)) return;
    EXPECT_EQ(Ctl({"stop", "--now"}).code, 0);
  };
  ASSERT_TRUE(cluster_.supervisor()
                  .Start("launcher", {.argv = argv, .capture_output = true})
                  .ok());
  EXPECT_EQ(cluster_.Run(), 1);
  EXPECT_THAT(
      cluster_.Lines("launcher"),
      AllOf(Contains(AllOf(HasSubstr("no restart"), HasSubstr("stopped")))
                .Times(1),
            Not(Contains(HasSubstr("starts again")))));
}

TEST(LauncherTest, AProgramThatIsNotThereExitsWithTwo) {
  const Outcome outcome =
      RunTool({"lockstepctl", "run", "-n", "2", "--", "/no/such"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("/no/such"));
}

TEST_F(CtlTest, ADaemonWhosePortIsTakenSaysSoAndExitsWithOne) {
  const Outcome outcome =
      RunTool({"lockstepd", "--listen", cluster_.address()});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, HasSubstr(cluster_.address()));
}

}  // namespace
}  // namespace lockstep::e2e
