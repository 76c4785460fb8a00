#include "tools/launch/supervisor.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
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

TEST_F(SupervisorTest, HoldsASignalBackUntilItMayBeForwarded) {
  SupervisorOptions options = Options(absl::Minutes(1));
  std::vector<int> asked;
  options.may_forward = [&](int signal) {
    asked.push_back(signal);
    return asked.size() == 3;
  };
  Supervisor supervisor(std::move(options));
  on_line_ = [&](const std::string& line) {
    if (line == "ready") kill(getpid(), SIGTERM);
    if (line != "bye") return;
    EXPECT_THAT(asked, testing::SizeIs(3));
  };
  ASSERT_TRUE(supervisor
                  .Start("w", Shell("trap 'echo bye; exit 0' TERM; echo ready; "
                                    "while :; do sleep 0.01; done"))
                  .ok());
  EXPECT_EQ(supervisor.Run(), 128 + SIGTERM);
  EXPECT_THAT(asked, testing::ElementsAre(SIGTERM, SIGTERM, SIGTERM));
  EXPECT_THAT(lines_["w"], Contains("bye"));
}

TEST_F(SupervisorTest, ASecondSignalForwardsOneThatWasHeldBack) {
  SupervisorOptions options = Options(absl::Minutes(1));
  options.may_forward = [](int) {
    kill(getpid(), SIGTERM);
    return false;
  };
  Supervisor supervisor(std::move(options));
  on_line_ = [](const std::string& line) {
    if (line == "ready") kill(getpid(), SIGTERM);
  };
  ASSERT_TRUE(supervisor
                  .Start("w", Shell("trap 'echo bye; exit 0' TERM; echo ready; "
                                    "while :; do sleep 0.01; done"))
                  .ok());
  EXPECT_EQ(supervisor.Run(), 128 + SIGTERM);
  EXPECT_THAT(lines_["w"], Contains("bye"));
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

// A worker that ignores SIGTERM is killed, and the coordinator is not before
// all workers have ended: another one may still need it.
TEST_F(SupervisorTest, ABackgroundChildOutlivesWorkersThatAreKilled) {
  Supervisor supervisor(Options(absl::Milliseconds(50)));
  const ScratchFolder folder;
  const std::string ready = folder.path() / "ready";
  ASSERT_TRUE(supervisor
                  .Start("daemon", Shell("exec sleep 1000"),
                         Supervisor::Role::kBackground)
                  .ok());
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
  EXPECT_EQ(supervisor.Run(), 3);
  EXPECT_EQ(ending_["stubborn"].signal, SIGKILL);
  EXPECT_EQ(ending_["daemon"].signal, SIGTERM);
  EXPECT_THAT(endings_, ElementsAre("failed", "stubborn", "daemon"));
}

TEST_F(SupervisorTest, ABackgroundChildThatEndsFirstIsAFailure) {
  Supervisor supervisor(Options(absl::ZeroDuration()));
  ASSERT_TRUE(
      supervisor.Start("daemon", Shell("exit 0"), Supervisor::Role::kBackground)
          .ok());
  ASSERT_TRUE(supervisor.Start("w", Shell("exec sleep 1000")).ok());
  EXPECT_EQ(supervisor.Run(), 1);
}

// Starts workers again from on_ending, as a launcher does.
class RestartTest : public SupervisorTest {
 protected:
  // `on_end`: called for each end of a child.
  Supervisor& Begin(
      absl::Duration grace,
      std::function<void(const std::string&, const ProcessExit&)> on_end) {
    SupervisorOptions options = Options(grace);
    options.on_ending = [this, on_end = std::move(on_end)](
                            const std::string& name, pid_t,
                            const ProcessExit& ending) {
      endings_.push_back(name);
      ending_[name] = ending;
      on_end(name, ending);
    };
    options.on_not_started = [this](const std::string& name,
                                    const absl::Status& why) {
      not_started_[name] = why.code();
    };
    return supervisor_.emplace(std::move(options));
  }

  std::optional<Supervisor> supervisor_;
  std::map<std::string, absl::StatusCode> not_started_;
};

// `other` runs until the second `bad` has created the file.
TEST_F(RestartTest, StartsAWorkerAgainWhileTheOthersRunOn) {
  const ScratchFolder folder;
  const std::string done = folder.path() / "done";
  Supervisor& running =
      Begin(absl::ZeroDuration(),
            [&](const std::string& name, const ProcessExit& ending) {
              if (name != "bad" || ending.ok()) return;
              supervisor_->StartAgain(
                  "bad", Shell(absl::StrCat("echo again; touch ", done)),
                  absl::ZeroDuration());
              EXPECT_FALSE(supervisor_->Ending());
            });
  ASSERT_TRUE(running
                  .Start("daemon", Shell("exec sleep 1000"),
                         Supervisor::Role::kBackground)
                  .ok());
  ASSERT_TRUE(running.Start("bad", Shell("printf first; exit 3")).ok());
  ASSERT_TRUE(
      running
          .Start("other", Shell(absl::StrCat("while [ ! -e ", done,
                                             " ]; do sleep 0.01; done")))
          .ok());
  EXPECT_EQ(running.Run(), 0) << "the failure does not count";
  EXPECT_TRUE(ending_["other"].ok()) << "it got no signal";
  EXPECT_EQ(endings_.front(), "bad");
  EXPECT_EQ(endings_.back(), "daemon");
  EXPECT_EQ(endings_.size(), 4u);
  EXPECT_THAT(lines_["bad"], ElementsAre("first", "again"));
}

TEST_F(RestartTest, TheLastWorkerThatWaitsForItsStartKeepsTheBackground) {
  int failures = 0;
  absl::Time failed;
  Supervisor& running =
      Begin(absl::Minutes(1), [&](const std::string& name, const ProcessExit&) {
        if (name != "bad" || failures++ > 0) return;
        failed = absl::Now();
        supervisor_->StartAgain("bad", Shell("exit 0"), absl::Milliseconds(50));
        EXPECT_TRUE(supervisor_->Ended("bad"));
      });
  ASSERT_TRUE(running
                  .Start("daemon", Shell("exec sleep 1000"),
                         Supervisor::Role::kBackground)
                  .ok());
  ASSERT_TRUE(running.Start("bad", Shell("exit 3")).ok());
  EXPECT_EQ(running.Run(), 0);
  EXPECT_GE(absl::Now() - failed, absl::Milliseconds(50));
  EXPECT_THAT(endings_, ElementsAre("bad", "bad", "daemon"));
}

TEST_F(RestartTest, TheCodeIsThatOfTheFailureThatCounts) {
  int failures = 0;
  Supervisor& running = Begin(absl::Minutes(1), [&](const std::string&,
                                                    const ProcessExit&) {
    if (++failures > 2) return;
    supervisor_->StartAgain("bad", Shell(absl::StrCat("exit ", 3 + failures)),
                            absl::ZeroDuration());
  });
  ASSERT_TRUE(running.Start("bad", Shell("exit 3")).ok());
  EXPECT_EQ(running.Run(), 5);
  EXPECT_EQ(failures, 3);
}

TEST_F(RestartTest, StartsAWorkerAgainThatHadEndedWellBefore) {
  const ScratchFolder folder;
  const std::string ended = folder.path() / "ended";
  int failures = 0;
  Supervisor& running = Begin(
      absl::Minutes(1), [&](const std::string& name, const ProcessExit& e) {
        if (name == "good") std::ofstream(ended) << "ended";
        if (e.ok()) return;
        ++failures;
        supervisor_->StartAgain("bad", Shell("exit 0"), absl::ZeroDuration());
        supervisor_->StartAgain("good", Shell("exit 0"), absl::ZeroDuration());
        supervisor_->StartAgain("running", Shell("exit 9"),
                                absl::ZeroDuration());  // it has not ended
      });
  ASSERT_TRUE(running.Start("good", Shell("exit 0")).ok());
  ASSERT_TRUE(running.Start("running", Shell("exec sleep 0.2")).ok());
  ASSERT_TRUE(
      running
          .Start("bad", Shell(absl::StrCat("while [ ! -e ", ended,
                                           " ]; do sleep 0.01; done; exit 3")))
          .ok());
  EXPECT_EQ(running.Run(), 0);
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(std::count(endings_.begin(), endings_.end(), "good"), 2);
  EXPECT_EQ(std::count(endings_.begin(), endings_.end(), "running"), 1);
}

TEST_F(RestartTest, AWorkerThatCannotBeStartedAgainIsAFailure) {
  Supervisor& running =
      Begin(absl::Minutes(1), [&](const std::string& name, const ProcessExit&) {
        if (name != "bad") return;
        supervisor_->StartAgain("bad", {.argv = {"/no/such/program"}},
                                absl::ZeroDuration());
      });
  ASSERT_TRUE(running
                  .Start("daemon", Shell("exec sleep 1000"),
                         Supervisor::Role::kBackground)
                  .ok());
  ASSERT_TRUE(running.Start("bad", Shell("exit 3")).ok());
  EXPECT_EQ(running.Run(), 3);
  EXPECT_EQ(not_started_["bad"], absl::StatusCode::kNotFound);
  EXPECT_THAT(endings_, ElementsAre("bad", "daemon"));
}

// `a` waits an hour for its start; the failure of `b` counts.
TEST_F(RestartTest, AFailureThatCountsEndsTheWaitForAStart) {
  const ScratchFolder folder;
  const std::string failed = folder.path() / "failed";
  Supervisor& running =
      Begin(absl::Minutes(1), [&](const std::string& name, const ProcessExit&) {
        if (name != "a") return;
        supervisor_->StartAgain("a", Shell("exit 0"), absl::Hours(1));
        std::ofstream(failed) << "a";
      });
  ASSERT_TRUE(running.Start("a", Shell("exit 3")).ok());
  ASSERT_TRUE(
      running
          .Start("b", Shell(absl::StrCat("while [ ! -e ", failed,
                                         " ]; do sleep 0.01; done; exit 4")))
          .ok());
  EXPECT_EQ(running.Run(), 4);
  EXPECT_TRUE(running.Ending());
  EXPECT_THAT(endings_, ElementsAre("a", "b"));
}

TEST_F(RestartTest, StartsNobodyAgainAfterASignal) {
  Supervisor& running =
      Begin(absl::Minutes(1), [&](const std::string&, const ProcessExit&) {
        EXPECT_TRUE(supervisor_->Ending());
        supervisor_->StartAgain("w", Shell("exit 0"), absl::ZeroDuration());
      });
  on_line_ = [](const std::string&) { kill(getpid(), SIGTERM); };
  ASSERT_TRUE(
      running.Start("w", Shell("echo ready; while :; do sleep 0.01; done"))
          .ok());
  EXPECT_EQ(running.Run(), 128 + SIGTERM);
  EXPECT_EQ(endings_.size(), 1u);
}

TEST_F(RestartTest, ASignalEndsTheWaitForAStart) {
  Supervisor& running =
      Begin(absl::Minutes(1), [&](const std::string&, const ProcessExit&) {
        supervisor_->StartAgain("bad", Shell("exit 0"), absl::Hours(1));
        kill(getpid(), SIGTERM);
      });
  ASSERT_TRUE(running.Start("bad", Shell("exit 3")).ok());
  EXPECT_EQ(running.Run(), 128 + SIGTERM);
  EXPECT_EQ(endings_.size(), 1u);
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
