// A launcher's death report applies to its own worker only.

#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/operated.h"

namespace lockstep::e2e {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class SecondLaunchTest : public OperatedTest {
 protected:
  SecondLaunchTest()
      : OperatedTest(
            "name: trouble\nmesh: data=2\n"
            "timeouts: {join: 60s, lease: 20s, resume: 20s}\n"
            "transport: gloo\n") {}

  // Runs `lockstepctl run` of the same job, with the same worker names.
  Outcome Launch(std::vector<std::string> orders) {
    std::vector<std::string> words = {"run",
                                      "-n",
                                      "2",
                                      "-f",
                                      cluster_.File("spec.yaml"),
                                      "--",
                                      launch::OwnFolder() + "/trouble_worker"};
    words.insert(words.end(), orders.begin(), orders.end());
    return Ctl(std::move(words));
  }
};

TEST_F(SecondLaunchTest, IsRefusedAndTheRunningJobCompletes) {
  bool launched = false;
  cluster_.on_line = [&](const std::string& name, const std::string& line) {
    if (name != "worker-0" || line != "at 20" || std::exchange(launched, true))
      return;
    const Outcome second = Launch({"5"});
    EXPECT_EQ(second.code, 1);
    EXPECT_THAT(second.output, HasSubstr("ALREADY_EXISTS"));
    EXPECT_THAT(
        Ctl({"describe", "trouble", "--json"}).output,
        AllOf(HasSubstr("evidence about worker-0 has no effect"),
              HasSubstr("evidence about worker-1 has no effect"),
              HasSubstr("exited with code 1"), HasSubstr("\"running\"")));
  };
  // More lines than a pipe holds: the job cannot end while none are read.
  cluster_.Start({"worker-0", {"10000"}});
  cluster_.Start({"worker-1", {"10000"}});
  EXPECT_EQ(cluster_.Run(), 0);
  EXPECT_TRUE(launched);
  EXPECT_EQ(cluster_.LastLine("worker-0"), "done");
  EXPECT_EQ(cluster_.LastLine("worker-1"), "done");
}

// The first launch has a worker that joins late, so that the second one has
// time to take its rank.
TEST_F(SecondLaunchTest, TwoAtOnceDoNotShareTheRanks) {
  const std::string fifo = cluster_.File("go");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const std::string worker = launch::OwnFolder() + "/trouble_worker";
  ASSERT_TRUE(
      cluster_.supervisor()
          .Start("first",
                 {.argv = {launch::OwnFolder() + "/lockstepctl", "--address",
                           cluster_.address(), "run", "-n", "2", "-f",
                           cluster_.File("spec.yaml"), "--", "sh", "-c",
                           "case $LOCKSTEP_WORKER_NAME in worker-1) read go <" +
                               fifo + ";; esac; exec " + worker + " 5"},
                  .capture_output = true})
          .ok());
  std::string described;
  for (int i = 0; i < 500; ++i) {  // each takes the start of a program
    described = Ctl({"describe", "trouble"}).output;
    if (absl::StrContains(described, "1 of 2 are here")) break;
  }
  ASSERT_THAT(described, HasSubstr("1 of 2 are here"));

  const Outcome second = Launch({"5"});
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.output,
              AllOf(HasSubstr("ALREADY_EXISTS: the name worker-0 is held"),
                    HasSubstr("job trouble is that of another launch: worker-0 "
                              "(")));
  std::ofstream(fifo) << "go\n";
  EXPECT_EQ(cluster_.Run(), 0);
}

// The program has a different spec, of which its launcher does not know.
TEST_F(SecondLaunchTest, WhatIsRefusedForGoodIsNotTriedAgain) {
  const std::string spec =
      "name: trouble\nmesh: data=2\ntransport: gloo\n"
      "limits: {max_restarts: 5}\n";
  const std::string file = cluster_.File("restarting.yaml");
  cluster_.WriteFile("restarting.yaml", spec);
  cluster_.WriteFile("other.yaml", spec + "seed: 4711\n");
  ASSERT_EQ(Ctl({"create", "-f", file}).code, 0);
  const Outcome second =
      Ctl({"run", "-n", "2", "--restarts", "5", "-f", file, "--", "sh", "-c",
           "LOCKSTEP_SPEC=" + cluster_.File("other.yaml") + " exec " +
               launch::OwnFolder() + "/trouble_worker 5"});
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(
      second.output,
      AllOf(ContainsRegex("no restart of job trouble: worker-[01] was refused: "
                          "INVALID_ARGUMENT: worker-[01] brings another spec"),
            Not(HasSubstr("start again"))));
}

// Streams and leases would take 20 s to show it.
TEST_F(SecondLaunchTest, OfItsOwnWorkersALauncherProvesTheDeath) {
  EXPECT_EQ(Launch({"100000", "die=3"}).code, 128 + SIGKILL);
  EXPECT_THAT(Ctl({"describe", "trouble", "--json"}).output,
              AllOf(HasSubstr("died: "),
                    ContainsRegex("process [0-9]+ killed by signal 9 "
                                  "\\(Killed\\)")));
}

}  // namespace
}  // namespace lockstep::e2e
