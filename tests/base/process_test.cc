#include "base/process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

TEST(ProcessTest, AProcessKeepsItsStartTime) {
  const uint64_t start = StartTimeOf(getpid());
  EXPECT_GT(start, 0u);
  EXPECT_EQ(StartTimeOf(getpid()), start);
  EXPECT_GT(StartTimeOf(getppid()), 0u);
}

// A program may change its name.
TEST(ProcessTest, TheNameInTheLineDoesNotMatter) {
  const uint64_t start = StartTimeOf(getpid());
  char name[16] = {};
  ASSERT_EQ(prctl(PR_GET_NAME, name), 0);
  ASSERT_EQ(prctl(PR_SET_NAME, ") R 1 2) S 3"), 0);
  EXPECT_EQ(StartTimeOf(getpid()), start);
  prctl(PR_SET_NAME, name);
}

TEST(ProcessTest, AChildHasAStartTimeUntilItWasWaitedFor) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT),
            0);
  EXPECT_GE(StartTimeOf(child), StartTimeOf(getpid()));
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(StartTimeOf(child), 0u);
}

TEST(ProcessTest, AStoppedChildIsToldFromOneThatRuns) {
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, WUNTRACED), child);
  EXPECT_TRUE(IsStopped(child));
  EXPECT_FALSE(IsStopped(getpid()));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(IsStopped(child)) << "there is no such process";
}

}  // namespace
}  // namespace lockstep
