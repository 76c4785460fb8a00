// `lockstepctl run --spares`, and of an elastic job: which failures of workers
// count when the job goes on without them.

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/tool.h"
#include "tools/launch/child.h"
#include "tools/launch/scratch_folder.h"

namespace lockstep::e2e {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class LauncherSparesTest : public testing::Test {
 protected:
  // Begins an operator's command, in a worker's shell.
  static std::string Ctl() {
    return "env -u LOCKSTEP_TOKEN " + launch::OwnFolder() + "/lockstepctl ";
  }

  // Two workers that train without an end, and a spare. Once it waits, a
  // companion of worker-0 sends the command.
  static Outcome LaunchAndSend(const std::string& command) {
    return RunTool({"lockstepctl", "run", "-n", "2", "--spares", "1", "--job",
                    "ended", "--label", "--grace", "2", "--", "sh", "-c",
                    "case $LOCKSTEP_WORKER_NAME in worker-0) (until " + Ctl() +
                        "describe ended | tr '\\n' ' ' | grep -q "
                        "'running.*waiting'; do sleep 0.05; done; " +
                        Ctl() + command + ") & ;; esac; exec " +
                        launch::OwnFolder() +
                        "/trouble_worker 100000000 quiet=0"});
  }

  static Outcome Launch(const std::vector<std::string>& options,
                        const std::vector<std::string>& words) {
    std::vector<std::string> all = {"lockstepctl", "run", "--label", "--grace",
                                    "2"};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--", launch::OwnFolder() + "/recovering_worker"});
    all.insert(all.end(), words.begin(), words.end());
    return RunTool(all);
  }

  std::string SpecFile(const std::string& text) {
    const std::string file = folder_.path() / "spec.yaml";
    std::ofstream(file) << text;
    return file;
  }

  static int CountOf(const std::string& text, const Outcome& outcome) {
    const std::vector<std::string> lines = absl::StrSplit(outcome.output, '\n');
    return static_cast<int>(std::count_if(
        lines.begin(), lines.end(),
        [&](const auto& line) { return absl::StrContains(line, text); }));
  }

  launch::ScratchFolder folder_;
};

// The spare begins once the others have their ranks, so that it has none.
TEST_F(LauncherSparesTest, ASpareTakesThePlaceOfAWorkerThatDies) {
  const Outcome run = RunTool(
      {"lockstepctl", "run", "-n", "3", "--spares", "1", "--job", "spared",
       "--label", "--grace", "2", "--", "sh", "-c",
       "case $LOCKSTEP_WORKER_NAME in worker-3) until " + Ctl() +
           "describe spared | grep -q 'epoch 1'; do sleep 0.05; done;; esac; "
           "exec " +
           launch::OwnFolder() + "/recovering_worker 2000 worker-1 500"});
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_EQ(CountOf("done 2000", run), 3) << run.output;
  EXPECT_THAT(run.output,
              ContainsRegex("\\[worker-3\\] epoch 2 from step 50[0-1]\n"));
  EXPECT_THAT(
      run.output,
      HasSubstr("lockstepctl: job spared goes on without worker-1: 3 workers "
                "are left, and it needs 3\n"));
}

TEST_F(LauncherSparesTest, ASpareThatWasNotNeededIsNoFailure) {
  const Outcome run =
      Launch({"-n", "2", "--spares", "2", "--job", "spared"}, {"500"});
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_EQ(CountOf("done 500", run), 2) << run.output;
  EXPECT_EQ(CountOf("lockstepctl: job spared does not need worker-", run), 2)
      << run.output;
}

TEST_F(LauncherSparesTest, AStoppedJobsSpareIsNoFailure) {
  const Outcome run = LaunchAndSend("stop ended");
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_EQ(CountOf("] done", run), 2) << run.output;
  EXPECT_EQ(CountOf("] error CANCELLED: stopped by an operator", run), 1)
      << run.output;
}

TEST_F(LauncherSparesTest, ADrainedJobsSpareIsNoFailure) {
  const Outcome run = LaunchAndSend("drain ended");
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_EQ(CountOf("] done", run), 2) << run.output;
  EXPECT_EQ(CountOf("] error CANCELLED: drained by an operator", run), 1)
      << run.output;
}

TEST_F(LauncherSparesTest, AnElasticJobGoesOnWithFewerWorkers) {
  const std::string spec = SpecFile(
      "name: shrinks\nmesh: data=3\n"
      "elastic: {axis: data, min_workers: 2}\n"
      "limits: {max_restarts: 5}\n");
  const Outcome run = Launch({"-n", "3", "-f", spec}, {"60", "worker-1", "5"});
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_EQ(CountOf("done 60", run), 2) << run.output;
  EXPECT_THAT(run.output,
              AllOf(HasSubstr("goes on without worker-1: 2 workers are left, "
                              "and it needs 2\n"),
                    Not(HasSubstr("restart 1"))));
}

// Below elastic.min_workers nobody replaces the dead worker.
TEST_F(LauncherSparesTest, TooFewWorkersAreAFailure) {
  const std::string spec = SpecFile(
      "name: stays\nmesh: data=2\n"
      "elastic: {axis: data, min_workers: 2}\n"
      "limits: {max_restarts: 5}\n");
  const Outcome run = Launch({"-n", "2", "-f", spec}, {"60", "worker-1", "5"});
  EXPECT_EQ(run.code, 128 + SIGKILL) << run.output;
  EXPECT_THAT(run.output, Not(HasSubstr("goes on without")));
}

// It is started again, and makes the job larger.
TEST_F(LauncherSparesTest, AnElasticJobGrowsWhenItsWorkerStartsAgain) {
  const std::string spec = SpecFile(
      "name: grows\nmesh: data=3\n"
      "elastic: {axis: data}\nlimits: {max_restarts: 5}\n");
  const Outcome run = Launch({"-n", "3", "-f", spec, "--restarts", "1"},
                             {"20000", "worker-1", "500"});
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_EQ(CountOf("done 20000", run), 3) << run.output;
  EXPECT_THAT(run.output,
              ContainsRegex("\\[worker-1\\] epoch [23] from step [0-9]+\n"));
}

}  // namespace
}  // namespace lockstep::e2e
