#include "tools/launch/supervisor.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/launch/scratch_folder.h"

namespace lockstep::launch {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ChildCommand Shell(const std::string& script) {
  return {.argv = {"sh", "-c", script}, .capture_output = true};
}

// True once no process has this id; a zombie child counts as gone.
bool Gone(pid_t pid) { return kill(pid, 0) != 0; }

class SupervisorTest : public testing::Test {
 protected:
  SupervisorOptions Options(absl::Duration grace) {
    return {
        .grace = grace,
        .on_ending =
            [this](const std::string& name, pid_t, const ProcessExit& ending) {
              endings_.push_back(name);
              ending_[name] = ending;
            },
        .on_output =
            [this](const std::string& name, absl::string_view line) {
              lines_[name].emplace_back(line);
              if (on_line_) on_line_(std::string(line));
            }};
  }

  std::vector<std::string> endings_;
  std::map<std::string, ProcessExit> ending_;
  std::map<std::string, std::vector<std::string>> lines_;
  std::function<void(const std::string&)> on_line_;
};

TEST_F(SupervisorTest, ExitsWithZeroOnceAllHaveEndedWell) {
  Supervisor supervisor(Options(absl::Seconds(10)));
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_TRUE(supervisor.Start(name, Shell("true")).ok());
  }
  EXPECT_EQ(supervisor.Run(), 0);
  EXPECT_EQ(endings_.size(), 3u);
}

TEST_F(SupervisorTest, ExitsWithTheCodeOfTheFirstThatFailed) {
  Supervisor supervisor(Options(absl::Seconds(10)));
  ASSERT_TRUE(supervisor.Start("good", Shell("true")).ok());
  ASSERT_TRUE(supervisor.Start("bad", Shell("exit 7")).ok());
  EXPECT_EQ(supervisor.Run(), 7);
  EXPECT_EQ(Describe(ending_["bad"]), "exited with code 7");
}

TEST_F(SupervisorTest, TellsASignalFromAnExit) {
  Supervisor supervisor(Options(absl::Seconds(10)));
  ASSERT_TRUE(supervisor.Start("shot", Shell("kill -9 $$")).ok());
  EXPECT_EQ(supervisor.Run(), 128 + SIGKILL);
  EXPECT_EQ(Describe(ending_["shot"]), "killed by signal 9 (Killed)");
}

// Together with the pid, the start time identifies the process.
TEST_F(SupervisorTest, TellsWhenAChildThatEndedHadStarted) {
  Supervisor supervisor(Options(absl::Seconds(10)));
  ASSERT_TRUE(supervisor.Start("a", Shell("cat /proc/$$/stat; exit 3")).ok());
  EXPECT_EQ(supervisor.Run(), 3);
  ASSERT_EQ(lines_["a"].size(), 1u);
  const std::vector<std::string> stat = absl::StrSplit(lines_["a"][0], ' ');
  ASSERT_GT(stat.size(), 21u);
  EXPECT_EQ(absl::StrCat(ending_["a"].start_time), stat[21]);
}

TEST_F(SupervisorTest, EndsTheOthersAfterAFailureAndTheGrace) {
  const std::string ready =
      testing::TempDir() + "supervisor_test." + std::to_string(getpid());
  Supervisor supervisor(Options(absl::ZeroDuration()));
  ASSERT_TRUE(supervisor
                  .Start("deaf", Shell("trap '' TERM; touch " + ready +
                                       "; while :; do sleep 0.01; done"))
                  .ok());
  ASSERT_TRUE(supervisor
                  .Start("bad", Shell("while [ ! -e " + ready +
                                      " ]; do sleep 0.01; done; exit 3"))
                  .ok());
  EXPECT_EQ(supervisor.Run(), 3);
  EXPECT_EQ(ending_["deaf"].signal, SIGKILL);
  EXPECT_EQ(Describe(ending_["deaf"]),
            "killed by signal 9 (Killed), sent by its launcher: it had not "
            "ended 0 after signal 15 (Terminated)");
  unlink(ready.c_str());
}

TEST_F(SupervisorTest, LetsTheOthersEndByThemselvesWithinTheGrace) {
  Supervisor supervisor(Options(absl::Minutes(1)));
  ASSERT_TRUE(supervisor.Start("bad", Shell("exit 3")).ok());
  ASSERT_TRUE(supervisor.Start("slow", Shell("sleep 0.2; exit 0")).ok());
  EXPECT_EQ(supervisor.Run(), 3);
  EXPECT_TRUE(ending_["slow"].ok());
}

TEST_F(SupervisorTest, ForwardsASignalAndExitsWithIt) {
  Supervisor supervisor(Options(absl::Minutes(1)));
  on_line_ = [](const std::string& line) {
    if (line == "ready") kill(getpid(), SIGTERM);
  };
  ASSERT_TRUE(supervisor
                  .Start("w", Shell("trap 'echo bye; exit 0' TERM; echo ready; "
                                    "while :; do sleep 0.01; done"))
                  .ok());
  EXPECT_EQ(supervisor.Run(), 128 + SIGTERM);
  EXPECT_EQ(supervisor.interrupted_by(), SIGTERM);
  // A shell may report that its sleep was terminated.
  EXPECT_THAT(lines_["w"], AllOf(Contains("ready"), Contains("bye")));
}

TEST_F(SupervisorTest, ForwardsASignalThatItsParentIgnored) {
  signal(SIGINT, SIG_IGN);
  Supervisor supervisor(Options(absl::Minutes(1)));
  on_line_ = [](const std::string&) { kill(getpid(), SIGINT); };
  ASSERT_TRUE(
      supervisor.Start("w", Shell("echo ready; while :; do sleep 0.01; done"))
          .ok());
  EXPECT_EQ(supervisor.Run(), 128 + SIGINT);
  EXPECT_EQ(ending_["w"].signal, SIGINT);
}

TEST_F(SupervisorTest, ASecondSignalKills) {
  Supervisor supervisor(Options(absl::Minutes(1)));
  on_line_ = [](const std::string&) { kill(getpid(), SIGINT); };
  ASSERT_TRUE(supervisor
                  .Start("stubborn", Shell("trap 'echo again' INT; echo ready; "
                                           "while :; do sleep 0.01; done"))
                  .ok());
  EXPECT_EQ(supervisor.Run(), 128 + SIGINT);
  EXPECT_EQ(Describe(ending_["stubborn"]),
            "killed by signal 9 (Killed), sent by its launcher: the launcher "
            "got signal 2 (Interrupt) and then signal 2 (Interrupt)");
}

TEST_F(SupervisorTest, SaysWhyItEndedAWorker) {
  Supervisor supervisor(Options(absl::Milliseconds(500)));
  ASSERT_TRUE(supervisor.Start("slow", Shell("exec sleep 1000")).ok());
  ASSERT_TRUE(supervisor.Start("bad", Shell("exit 3")).ok());
  EXPECT_EQ(supervisor.Run(), 3);
  EXPECT_EQ(Describe(ending_["slow"]),
            "killed by signal 15 (Terminated), sent by its launcher: it had "
            "not ended 500ms after bad exited with code 3");
}

TEST_F(SupervisorTest, SaysThatAWorkerItKilledWasStopped) {
  const std::string pid =
      testing::TempDir() + "supervisor_stopped." + std::to_string(getpid());
  Supervisor supervisor(Options(absl::ZeroDuration()));
  ASSERT_TRUE(
      supervisor.Start("stopped", Shell("echo $$ > " + pid + "; kill -STOP $$"))
          .ok());
  ASSERT_TRUE(supervisor
                  .Start("bad", Shell("until grep -q ') T' /proc/$(cat " + pid +
                                      ")/stat; do sleep 0.01; done 2>&-; "
                                      "exit 3"))
                  .ok());
  EXPECT_EQ(supervisor.Run(), 3);
  unlink(pid.c_str());
  EXPECT_EQ(ending_["stopped"].signal, SIGKILL);
  EXPECT_THAT(Describe(ending_["stopped"]), HasSubstr("it was stopped"));
}

TEST_F(SupervisorTest, BlamesNoOtherSignalOnItself) {
  Supervisor supervisor(Options(absl::Minutes(1)));
  ASSERT_TRUE(supervisor
                  .Start("w", Shell("trap 'kill -9 $$' TERM; echo ready; "
                                    "while :; do sleep 0.01; done"))
                  .ok());
  // The shell may print "Terminated" for its own child.
  on_line_ = [](const std::string& line) {
    if (line == "ready") kill(getpid(), SIGTERM);
  };
  EXPECT_EQ(supervisor.Run(), 128 + SIGTERM);
  EXPECT_EQ(Describe(ending_["w"]), "killed by signal 9 (Killed)");
}

TEST_F(SupervisorTest, GivesOutputLineByLineAndTheUnfinishedLastOne) {
  Supervisor supervisor(Options(absl::Seconds(10)));
  ASSERT_TRUE(
      supervisor.Start("w", Shell("printf 'one\\n\\ntwo'; printf three >&2"))
          .ok());
  EXPECT_EQ(supervisor.Run(), 0);
  EXPECT_THAT(lines_["w"], ElementsAre("one", "", "twothree"));
}

TEST_F(SupervisorTest, ABackgroundChildIsEndedAfterTheWorkers) {
  Supervisor supervisor(Options(absl::Minutes(1)));
  ASSERT_TRUE(supervisor
                  .Start("daemon", Shell("exec sleep 1000"),
                         Supervisor::Role::kBackground)
                  .ok());
  ASSERT_TRUE(supervisor.Start("w", Shell("true")).ok());
  EXPECT_EQ(supervisor.Run(), 0);
  EXPECT_THAT(endings_, ElementsAre("w", "daemon"));
  EXPECT_EQ(ending_["daemon"].signal, SIGTERM);
}

// A worker that ignores SIGTERM is killed, and the coordinator is not: workers
// that restart need it.
TEST_F(SupervisorTest, ABackgroundChildOutlivesWorkersThatAreKilled) {
  SupervisorOptions options = Options(absl::Milliseconds(50));
  Supervisor* launcher = nullptr;
  int restarts = 0;
  options.on_workers_ended = [&](int) {
    if (restarts++ == 0) {
      EXPECT_TRUE(launcher->Start("again", Shell("true")).ok());
    }
    return absl::ZeroDuration();
  };
  Supervisor supervisor(std::move(options));
  launcher = &supervisor;
  ASSERT_TRUE(supervisor
                  .Start("daemon", Shell("exec sleep 1000"),
                         Supervisor::Role::kBackground)
                  .ok());
  const ScratchFolder folder;
  const std::string ready = folder.path() / "ready";
  ASSERT_TRUE(supervisor
                  .Start("stubborn",
                         Shell(absl::StrCat("trap '' TERM; touch ", ready,
                                            "; while :; do sleep 0.01; done")))
                  .ok());
  ASSERT_TRUE(supervisor
                  .Start("failed",
                         Shell(absl::StrCat("while [ ! -e ", ready,
                                            " ]; do sleep 0.01; done; exit 3")))
                  .ok());
  EXPECT_EQ(supervisor.Run(), 0);
  EXPECT_EQ(ending_["stubborn"].signal, SIGKILL);
  EXPECT_EQ(ending_["daemon"].signal, SIGTERM);
  EXPECT_THAT(endings_, ElementsAre("failed", "stubborn", "again", "daemon"));
}

TEST_F(SupervisorTest, ABackgroundChildThatEndsFirstIsAFailure) {
  Supervisor supervisor(Options(absl::ZeroDuration()));
  ASSERT_TRUE(
      supervisor.Start("daemon", Shell("exit 0"), Supervisor::Role::kBackground)
          .ok());
  ASSERT_TRUE(supervisor.Start("w", Shell("exec sleep 1000")).ok());
  EXPECT_EQ(supervisor.Run(), 1);
}

TEST_F(SupervisorTest, GoesOnWithTheWorkersThatReplaceThoseThatEnded) {
  SupervisorOptions options = Options(absl::Minutes(1));
  std::vector<int> failures;
  Supervisor* supervisor = nullptr;
  options.on_workers_ended = [&](int failure) {
    failures.push_back(failure);
    if (failure != 0) {
      EXPECT_TRUE(supervisor->Start("again", Shell("exit 0")).ok());
    }
    return absl::ZeroDuration();
  };
  Supervisor running(options);
  supervisor = &running;
  ASSERT_TRUE(running
                  .Start("daemon", Shell("exec sleep 1000"),
                         Supervisor::Role::kBackground)
                  .ok());
  ASSERT_TRUE(running.Start("bad", Shell("exit 3")).ok());
  ASSERT_TRUE(running.Start("good", Shell("exit 0")).ok());
  EXPECT_EQ(running.Run(), 0) << "the failure before does not count";
  EXPECT_THAT(failures, ElementsAre(3, 0));
  EXPECT_EQ(endings_.back(), "daemon");
}

TEST_F(SupervisorTest, ReplacesNobodyAfterASignal) {
  SupervisorOptions options = Options(absl::Minutes(1));
  options.on_workers_ended = [](int) {
    ADD_FAILURE() << "interrupted";
    return absl::ZeroDuration();
  };
  Supervisor supervisor(options);
  on_line_ = [](const std::string&) { kill(getpid(), SIGTERM); };
  ASSERT_TRUE(
      supervisor.Start("w", Shell("echo ready; while :; do sleep 0.01; done"))
          .ok());
  EXPECT_EQ(supervisor.Run(), 128 + SIGTERM);
}

TEST_F(SupervisorTest, AsksAgainAfterAPauseWhatReplacesTheWorkers) {
  for (const bool with_daemon : {false, true}) {
    SupervisorOptions options = Options(absl::Minutes(1));
    std::vector<absl::Time> asked;
    Supervisor* supervisor = nullptr;
    options.on_workers_ended = [&](int failure) {
      if (failure == 0) return absl::ZeroDuration();
      asked.push_back(absl::Now());
      if (asked.size() < 3) return absl::Milliseconds(20);
      EXPECT_TRUE(supervisor->Start("again", Shell("exit 0")).ok());
      return absl::ZeroDuration();
    };
    Supervisor running(options);
    supervisor = &running;
    if (with_daemon) {
      ASSERT_TRUE(running
                      .Start("daemon", Shell("exec sleep 1000"),
                             Supervisor::Role::kBackground)
                      .ok());
    }
    ASSERT_TRUE(running.Start("bad", Shell("exit 3")).ok());
    EXPECT_EQ(running.Run(), 0);
    ASSERT_EQ(asked.size(), 3u);
    EXPECT_GE(asked[2] - asked[0], absl::Milliseconds(40));
  }
}

TEST_F(SupervisorTest, ASignalEndsThePause) {
  SupervisorOptions options = Options(absl::Minutes(1));
  options.on_workers_ended = [](int) {
    kill(getpid(), SIGTERM);
    return absl::Hours(1);
  };
  Supervisor supervisor(options);
  ASSERT_TRUE(supervisor.Start("bad", Shell("exit 3")).ok());
  EXPECT_EQ(supervisor.Run(), 128 + SIGTERM);
}

TEST_F(SupervisorTest, LeavesNoGrandchildBehind) {
  Supervisor supervisor(Options(absl::Seconds(10)));
  ASSERT_TRUE(
      supervisor.Start("w", Shell("sleep 1000 >/dev/null 2>&1 & echo $!"))
          .ok());
  EXPECT_EQ(supervisor.Run(), 0);
  pid_t grandchild = 0;
  ASSERT_TRUE(absl::SimpleAtoi(lines_["w"].at(0), &grandchild));
  // SIGKILL was sent; init, or no process, reaps it.
  const std::string stat = "/proc/" + std::to_string(grandchild) + "/stat";
  for (int i = 0; i < 2000 && !Gone(grandchild); ++i) {
    FILE* file = fopen(stat.c_str(), "r");
    char state = 'X';
    if (file != nullptr) {
      if (fscanf(file, "%*d %*s %c", &state) != 1) state = 'X';
      fclose(file);
    }
    if (state == 'Z' || state == 'X') return;
    usleep(1000);
  }
  EXPECT_TRUE(Gone(grandchild));
}

TEST_F(SupervisorTest, PutsVariablesIntoTheEnvironment) {
  setenv("LOCKSTEP_TEST_OLD", "old", 1);
  Supervisor supervisor(Options(absl::Seconds(10)));
  ChildCommand command = Shell("echo $LOCKSTEP_TEST_OLD $LOCKSTEP_TEST_NEW");
  command.environment = {{"LOCKSTEP_TEST_OLD", "replaced"},
                         {"LOCKSTEP_TEST_NEW", "new"}};
  ASSERT_TRUE(supervisor.Start("w", command).ok());
  EXPECT_EQ(supervisor.Run(), 0);
  EXPECT_THAT(lines_["w"], ElementsAre("replaced new"));
}

TEST(ChildTest, AProgramThatIsNotThereIsNotFound) {
  EXPECT_EQ(Child::Start({.argv = {"/no/such/program"}}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Child::Start({.argv = {"/etc/passwd"}}).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST(ChildTest, IsKilledWhenItsOwnerGoes) {
  pid_t pid = 0;
  {
    absl::StatusOr<Child> child = Child::Start({.argv = {"sleep", "1000"}});
    ASSERT_TRUE(child.ok());
    pid = child->pid();
    EXPECT_FALSE(Gone(pid));
  }
  EXPECT_TRUE(Gone(pid));
}

}  // namespace
}  // namespace lockstep::launch
