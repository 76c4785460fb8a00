// `lockstepctl run --restarts`: which workers start again when one fails, and
// stalls, which it prints.

#include <signal.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/operated.h"

namespace lockstep::e2e {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

Outcome RunLabelled(const std::string& workers, const std::string& restarts,
                    const std::vector<std::string>& program,
                    const std::string& grace = "60") {
  std::vector<std::string> words = {
      "lockstepctl", "run",      "-n",      workers,   "--restarts", restarts,
      "--job",       "launched", "--label", "--grace", grace,        "--"};
  words.insert(words.end(), program.begin(), program.end());
  return RunTool(words);
}

std::string OwnProgram(const std::string& name) {
  return launch::OwnFolder() + "/" + name;
}

int LinesWith(const std::string& text, const Outcome& outcome) {
  const std::vector<std::string> lines = absl::StrSplit(outcome.output, '\n');
  return static_cast<int>(std::count_if(
      lines.begin(), lines.end(),
      [&](const std::string& line) { return absl::StrContains(line, text); }));
}

TEST(LauncherRestartTest, OnlyTheWorkerThatDiedStartsAgain) {
  const Outcome run = RunLabelled(
      "3", "2", {OwnProgram("recovering_worker"), "40", "worker-1", "5"});
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output,
              AllOf(HasSubstr("lockstepctl: restart 1 of 2: worker-1 starts "
                              "again\n"),
                    HasSubstr("[worker-0] recovered"),
                    HasSubstr("[worker-2] recovered"),
                    ContainsRegex("\\[worker-1\\] epoch 2 from step [56]\n"),
                    HasSubstr("[worker-1] done 40\n")))
      << run.output;
  EXPECT_EQ(LinesWith("starts again", run), 1) << run.output;
  EXPECT_EQ(LinesWith("killed by signal", run), 1) << run.output;
}

// worker-1 ends when it writes its second line, as nobody reads it.
TEST(LauncherRestartTest, TheProgramOfTheReadmeSurvivesADeath) {
  const std::string program = OwnProgram("recovering");
  const Outcome run = RunLabelled(
      "3", "2",
      {"sh", "-c",
       absl::StrCat("case $LOCKSTEP_RESTART_COUNT$LOCKSTEP_WORKER_NAME in "
                    "0worker-1) ",
                    program, " 1000 | head -n 1; exit 1;; *) exec ", program,
                    " 1000;; esac")});
  EXPECT_EQ(run.code, 0) << run.output;
  for (const char* name : {"worker-0", "worker-1", "worker-2"}) {
    EXPECT_EQ(LinesWith(absl::StrCat("[", name, "] step 1000: w = 3.000"), run),
              1)
        << run.output;
  }
  EXPECT_EQ(LinesWith("starts again", run), 1) << run.output;
}

// The others have its result: the replacement is not needed.
TEST(LauncherRestartTest, AWorkerThatDiesAfterItsLastStepIsNoFailure) {
  const Outcome run = RunLabelled(
      "3", "2", {OwnProgram("recovering_worker"), "40", "worker-1", "40"});
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, AllOf(HasSubstr("[worker-0] done 40\n"),
                                HasSubstr("[worker-2] done 40\n"),
                                HasSubstr("lockstepctl: job launched does not "
                                          "need worker-1: it is completed\n")))
      << run.output;
}

// No rank is special: the others go on without rank 0, and it comes back.
TEST(LauncherRestartTest, TheWorkerOfRankZeroIsReplacedAsAnyOther) {
  const Outcome run = RunLabelled(
      "3", "2", {OwnProgram("recovering_worker"), "40", "worker-0", "5"});
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output,
              AllOf(HasSubstr("[worker-1] recovered"),
                    HasSubstr("[worker-2] recovered"),
                    ContainsRegex("\\[worker-0\\] epoch 2 from step [56]\n")))
      << run.output;
  for (const char* name : {"worker-0", "worker-1", "worker-2"}) {
    EXPECT_EQ(LinesWith(absl::StrCat("[", name, "] done 40"), run), 1)
        << run.output;
  }
  EXPECT_EQ(LinesWith("starts again", run), 1) << run.output;
}

// They exit when their epoch ends: this is one restart.
TEST(LauncherRestartTest, WorkersThatDoNotRecoverStartAgainAsTheyEnd) {
  const std::string worker = OwnProgram("trouble_worker");
  const Outcome run =
      RunLabelled("3", "1",
                  {"sh", "-c",
                   "case $LOCKSTEP_RESTART_COUNT$LOCKSTEP_WORKER_NAME in "
                   "0worker-1) exec " +
                       worker +
                       " 1000000 quiet=0 die=3;; "
                       "0*) exec " +
                       worker +
                       " 1000000 quiet=0;; "
                       "*) exec " +
                       worker + " 5;; esac"});
  EXPECT_EQ(run.code, 0) << run.output;
  for (const char* name : {"worker-0", "worker-1", "worker-2"}) {
    EXPECT_EQ(
        LinesWith(absl::StrCat("restart 1 of 1: ", name, " starts again"), run),
        1)
        << run.output;
    EXPECT_THAT(run.output, HasSubstr(absl::StrCat("[", name, "] done\n")));
  }
}

// worker-0 leaves after 5 steps. worker-1 wants more, and cannot have them
// alone.
TEST(LauncherRestartTest, AWorkerThatEndedWellStartsAgainIfTheJobNeedsIt) {
  const std::string worker = OwnProgram("trouble_worker");
  const Outcome run =
      RunLabelled("2", "1",
                  {"sh", "-c",
                   "case $LOCKSTEP_RESTART_COUNT$LOCKSTEP_WORKER_NAME in "
                   "0worker-1) exec " +
                       worker +
                       " 1000000 quiet=0;; "
                       "*) exec " +
                       worker + " 5;; esac"});
  EXPECT_EQ(run.code, 0) << run.output;
  EXPECT_THAT(run.output, AllOf(HasSubstr("worker-0 starts again"),
                                HasSubstr("worker-1 starts again")));
  EXPECT_EQ(LinesWith("[worker-0] done", run), 2) << run.output;
  EXPECT_EQ(LinesWith("[worker-1] done", run), 1) << run.output;
}

// worker-1 dies whenever it has started.
TEST(LauncherRestartTest, RestartsThatAreUsedUpEndTheOthers) {
  const Outcome run =
      RunLabelled("2", "2",
                  {"sh", "-c",
                   "case $LOCKSTEP_WORKER_NAME in worker-1) kill -9 $$;; "
                   "*) exec sleep 1000;; esac"},
                  /*grace=*/"1");
  EXPECT_EQ(run.code, 128 + SIGKILL) << run.output;
  EXPECT_THAT(
      run.output,
      AllOf(HasSubstr("restart 1 of 2: worker-1 starts again\n"),
            HasSubstr("restart 2 of 2: worker-1 starts again in 100ms\n"),
            HasSubstr("no restart of job launched: 2 of 2 are used up"),
            ContainsRegex("worker-0 \\(process [0-9]+\\) killed by signal 15 "
                          "\\(Terminated\\), sent by its launcher")));
  EXPECT_EQ(LinesWith("no restart", run), 1) << run.output;
  EXPECT_EQ(LinesWith("worker-0 starts again", run), 0) << run.output;
}

// The test wakes the worker when the launcher has named it.
TEST(LauncherRestartTest, PrintsAStallOnceWhenItBegins) {
  const std::string worker = OwnProgram("trouble_worker");
  int stalls = 0;
  std::string output;
  launch::Supervisor supervisor(
      {.on_output = [&](const std::string&, absl::string_view line) {
        absl::StrAppend(&output, line, "\n");
        if (!absl::StrContains(line, "lockstepctl: job stalls: step ")) return;
        ++stalls;
        EXPECT_THAT(std::string(line), AllOf(HasSubstr("worker-1 (rank 1, "),
                                             HasSubstr("; worker-0 waits")));
        const size_t at = line.find(", pid ");
        ASSERT_NE(at, line.npos);
        const std::pair<std::string, std::string> parts =
            absl::StrSplit(line.substr(at + 6), absl::MaxSplits(')', 1));
        int pid = 0;
        ASSERT_TRUE(absl::SimpleAtoi(parts.first, &pid));
        EXPECT_EQ(kill(pid, SIGCONT), 0);
      }});
  ASSERT_TRUE(
      supervisor
          .Start("launcher", {.argv = {OwnProgram("lockstepctl"), "run", "-n",
                                       "2", "--job", "stalls", "--", "sh", "-c",
                                       "case $LOCKSTEP_WORKER_NAME in "
                                       "worker-1) exec " +
                                           worker +
                                           " 5 stop=3;; "
                                           "*) exec " +
                                           worker + " 5;; esac"},
                              .environment = {{"LOCKSTEP_ADDRESS", ""}},
                              .capture_output = true})
          .ok());
  EXPECT_EQ(supervisor.Run(), 0) << output;
  EXPECT_EQ(stalls, 1) << output;
}

}  // namespace
}  // namespace lockstep::e2e
