// The errors of all workers of a real job when one of them fails.

#include <signal.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/cluster.h"

namespace lockstep::e2e {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

// Short timeouts for short tests; no test depends on their length.
std::string Spec(int world_size, const std::string& more = "") {
  return absl::StrCat("name: trouble\nmesh: data=", world_size,
                      "\ntimeouts: {join: 60s, lease: 2s, resume: 500ms}\n",
                      more);
}

// Failures that each transport detects in its own way.
class TransportTroubleTest : public testing::TestWithParam<std::string> {
 protected:
  static std::string Spec(int world_size) {
    return e2e::Spec(world_size, absl::StrCat("transport: ", GetParam(), "\n"));
  }
  static std::string SpecOfShortSilence(int world_size) {
    return absl::StrCat(Spec(world_size), "timeouts.link: 500ms\n");
  }
};
INSTANTIATE_TEST_SUITE_P(Over, TransportTroubleTest,
                         testing::Values("gloo", "shm"),
                         [](const auto& info) { return info.param; });

TEST_P(TransportTroubleTest, AKilledWorkerIsNamedToAllThatWaitForIt) {
  Cluster cluster(3, Spec(3));
  cluster.Start({"worker-0", {"1000000"}});
  cluster.Start({"worker-1", {"1000000", "die=5"}});
  cluster.Start({"worker-2", {"1000000"}});
  EXPECT_EQ(cluster.Run(), 128 + SIGKILL);
  for (const char* survivor : {"worker-0", "worker-2"}) {
    EXPECT_THAT(
        cluster.LastLine(survivor),
        AllOf(StartsWith("error "), HasSubstr("worker-1"), HasSubstr("rank 1")))
        << survivor;
  }
}

TEST_P(TransportTroubleTest, AWorkerThatVanishesIsNamed) {
  Cluster cluster(2, Spec(2));
  cluster.Start({"worker-0", {"1000000"}});
  cluster.Start({"worker-1", {"1000000", "vanish=3"}});
  EXPECT_EQ(cluster.Run(), 1);
  EXPECT_THAT(cluster.LastLine("worker-0"),
              AllOf(StartsWith("error "), HasSubstr("worker-1")));
}

// The process exists but does not run: only the lease expires.
TEST_P(TransportTroubleTest, AStoppedWorkerIsGivenUpWhenItsLeaseRunsOut) {
  Cluster cluster(2, Spec(2));
  cluster.on_ending = [&](const std::string& name, pid_t,
                          const launch::ProcessExit&) {
    if (name == "worker-0") cluster.supervisor().Signal("worker-1", SIGKILL);
  };
  cluster.Start({"worker-0", {"1000000"}});
  cluster.Start({"worker-1", {"1000000", "stop=3"}});
  EXPECT_NE(cluster.Run(), 0);
  EXPECT_THAT(cluster.LastLine("worker-0"),
              AllOf(StartsWith("error "), HasSubstr("worker-1")));
}

// The peers notice the silence long before the lease expires; all ranks get its
// name, and no error about the links that it broke.
TEST_P(TransportTroubleTest, AStoppedWorkerIsNamedThoughItsPeersMissItFirst) {
  Cluster cluster(3, SpecOfShortSilence(3));
  int ended = 0;
  cluster.on_ending = [&](const std::string&, pid_t,
                          const launch::ProcessExit&) {
    if (++ended == 2) cluster.supervisor().Signal("worker-1", SIGKILL);
  };
  cluster.Start({"worker-0", {"1000000"}});
  cluster.Start({"worker-1", {"1000000", "stop=3"}});
  cluster.Start({"worker-2", {"1000000"}});
  EXPECT_NE(cluster.Run(), 0);
  for (const char* survivor : {"worker-0", "worker-2"}) {
    EXPECT_THAT(cluster.LastLine(survivor),
                AllOf(StartsWith("error "), HasSubstr("worker-1"),
                      HasSubstr("fell silent")))
        << survivor;
  }
}

// No other detection is possible: the coordinator is stopped, too.
TEST_P(TransportTroubleTest, AStoppedWorkerIsMissedWithoutACoordinator) {
  Cluster cluster(2, SpecOfShortSilence(2));
  cluster.on_line = [&](const std::string& name, const std::string& line) {
    if (name == "worker-1" && line == "at 3") {
      cluster.supervisor().Signal("lockstepd", SIGSTOP);
    }
  };
  cluster.on_ending = [&](const std::string& name, pid_t,
                          const launch::ProcessExit&) {
    if (name != "worker-0") return;
    cluster.supervisor().Signal("worker-1", SIGKILL);
    cluster.supervisor().Signal("lockstepd", SIGCONT);
  };
  cluster.Start({"worker-0", {"1000000"}});
  cluster.Start({"worker-1", {"1000000", "stop=3"}});
  EXPECT_NE(cluster.Run(), 0);
  EXPECT_THAT(cluster.LastLine("worker-0"),
              AllOf(StartsWith("error "), HasSubstr("rank 1 is silent"),
                    HasSubstr("has fenced itself")));
}

// Heartbeats of the stuck worker go on: no lease expires, no link is silent.
TEST_P(TransportTroubleTest, AWorkerThatLivesAndIsStuckIsEvictedAndNamed) {
  Cluster cluster(
      3, absl::StrCat(Spec(3), "timeouts.progress: 1s\non_stuck: evict\n"));
  int ended = 0;
  cluster.on_ending = [&](const std::string&, pid_t,
                          const launch::ProcessExit&) {
    if (++ended == 2) cluster.supervisor().Signal("worker-1", SIGKILL);
  };
  cluster.Start({"worker-0", {"1000000"}});
  cluster.Start({"worker-1", {"1000000", "hang=3"}});
  cluster.Start({"worker-2", {"1000000"}});
  EXPECT_NE(cluster.Run(), 0);
  for (const char* waiting : {"worker-0", "worker-2"}) {
    EXPECT_THAT(cluster.LastLine(waiting),
                AllOf(StartsWith("error "), HasSubstr("worker-1 (rank 1, "),
                      HasSubstr("was evicted: step 3"),
                      HasSubstr("worker-0 and worker-2 wait")))
        << waiting;
  }
}

// Finish counts the steps: a skipped one is not identified.
TEST(TroubleTest, ALoopThatSkipsAStepIsToldWhenTheRankLeavesEarly) {
  Cluster cluster(2, Spec(2));
  cluster.Start({"worker-0", {"12"}});
  cluster.Start({"worker-1", {"12", "skip=3"}});
  EXPECT_EQ(cluster.Run(), 1);
  EXPECT_THAT(cluster.LastLine("worker-0"),
              AllOf(StartsWith("error ABORTED"), HasSubstr("worker-1"),
                    HasSubstr("left after 11 steps, but worker-0 goes on")));
}

TEST(TroubleTest, ALoopThatSkipsOnlyFinishIsToldByTheNextSubmit) {
  Cluster cluster(2, Spec(2));
  cluster.Start({"worker-0", {"12"}});
  cluster.Start({"worker-1", {"12", "unfinished=3"}});
  EXPECT_EQ(cluster.Run(), 1);
  EXPECT_THAT(cluster.LastLine("worker-1"),
              AllOf(StartsWith("error INVALID_ARGUMENT"),
                    HasSubstr("w was submitted 1 time")));
}

TEST(TroubleTest, ALocalFailureIsToldToAllWithRankCallAndMessage) {
  Cluster cluster(3, Spec(3));
  cluster.Start({"worker-0", {"1000000"}});
  cluster.Start({"worker-1", {"1000000"}});
  cluster.Start({"worker-2", {"1000000", "fail=4"}});
  EXPECT_EQ(cluster.Run(), 1);
  for (const char* worker : {"worker-0", "worker-1", "worker-2"}) {
    EXPECT_THAT(
        cluster.LastLine(worker),
        AllOf(StartsWith("error "), HasSubstr("rank 2"), HasSubstr("forward"),
              HasSubstr("the loss is not a number")))
        << worker;
  }
}

// In any place that opens a file: the transport's loop, a listener, a
// connection, memory. The worker reports it, no other worker is blamed, and
// none crashes.
TEST(TroubleTest, AWorkerWithFewOpenFilesNamesTheLimitToAll) {
  int exhausted = 0;
  for (const int files : {12, 14, 15, 16, 18, 19, 21}) {
    Cluster cluster(3, Spec(3));
    cluster.Start({"worker-0", {"3"}});
    cluster.Start({"worker-1", {"3"}});
    cluster.Start({"worker-2", {"3", absl::StrCat("files=", files)}});
    if (cluster.Run() == 0) continue;
    ++exhausted;
    for (const char* worker : {"worker-0", "worker-1", "worker-2"}) {
      EXPECT_THAT(cluster.LastLine(worker),
                  AllOf(StartsWith("error "), HasSubstr("RESOURCE_EXHAUSTED"),
                        HasSubstr(absl::StrCat("its limit is ", files)),
                        HasSubstr("ulimit -n"), HasSubstr("worker-2")))
          << worker << " with " << files << " files";
    }
  }
  EXPECT_GE(exhausted, 4);
}

TEST(TroubleTest, ATakenNameIsRefusedAndItsHolderIsNamed) {
  Cluster cluster(2, Spec(2));
  std::string refused;
  cluster.on_ending = [&](const std::string& name, pid_t,
                          const launch::ProcessExit&) {
    // The second one was refused; the first one waits for a worker-1.
    if (!refused.empty() || name == "lockstepd") return;
    refused = cluster.LastLine(name);
    cluster.supervisor().Signal(name == "first" ? "second" : "first", SIGKILL);
  };
  cluster.Start({"worker-0", {"20"}, "first"});
  cluster.Start({"worker-0", {"20"}, "second"});
  EXPECT_NE(cluster.Run(), 0);
  EXPECT_THAT(refused, AllOf(StartsWith("error ALREADY_EXISTS"),
                             HasSubstr("worker-0"), HasSubstr("pid")));
}

TEST(TroubleTest, EveryMissingWorkerIsNamedAtTheJoinDeadline) {
  Cluster cluster(4, "name: trouble\nmesh: data=4\ntimeouts: {join: 500ms}\n");
  cluster.Start({"worker-0", {"1"}});
  cluster.Start({"worker-2", {"1"}});
  EXPECT_EQ(cluster.Run(), 1);
  for (const char* worker : {"worker-0", "worker-2"}) {
    EXPECT_THAT(cluster.LastLine(worker),
                AllOf(StartsWith("error DEADLINE_EXCEEDED"),
                      HasSubstr("worker-1"), HasSubstr("worker-3")))
        << worker;
  }
}

TEST(TroubleTest, AWorkerBeyondTheWorldIsRefused) {
  Cluster cluster(1, Spec(1));
  cluster.Start({"worker-0", {"20"}});
  cluster.Start({"worker-1", {"20"}});
  EXPECT_EQ(cluster.Run(), 1);
  // Either may have been first; the other finds the job full, or ended.
  EXPECT_THAT(
      (std::vector<std::string>{cluster.LastLine("worker-0"),
                                cluster.LastLine("worker-1")}),
      UnorderedElementsAre("done", StartsWith("error FAILED_PRECONDITION")));
}

TEST(TroubleTest, RegistrationsThatDifferAreListedForEveryRank) {
  Cluster cluster(3, Spec(3));
  cluster.Start({"worker-0", {"5"}});
  cluster.Start({"worker-1", {"5"}});
  cluster.Start({"worker-2", {"5", "shape=6"}});
  EXPECT_EQ(cluster.Run(), 1);
  for (const char* worker : {"worker-0", "worker-1", "worker-2"}) {
    EXPECT_THAT(cluster.LastLine(worker),
                AllOf(StartsWith("error INVALID_ARGUMENT"), HasSubstr("w"),
                      HasSubstr("[4]"), HasSubstr("[6]"), HasSubstr("2")))
        << worker;
  }
}

TEST(TroubleTest, AnotherSpecIsRefusedWithTheFieldsThatDiffer) {
  Cluster cluster(2, Spec(2, "seed: 7\n"));
  cluster.WriteFile("other.yaml",
                    Spec(2, "seed: 8\nbuckets: {bytes_max: 1MiB}\n"));
  std::string refused;
  cluster.on_ending = [&](const std::string& name, pid_t,
                          const launch::ProcessExit&) {
    if (!refused.empty() || name == "lockstepd") return;
    refused = cluster.LastLine(name);
    cluster.supervisor().Signal(name == "worker-0" ? "worker-1" : "worker-0",
                                SIGKILL);
  };
  cluster.Start({"worker-0", {"5"}});
  cluster.Start({"worker-1", {"5"}, "", cluster.File("other.yaml")});
  EXPECT_NE(cluster.Run(), 0);
  EXPECT_THAT(refused,
              AllOf(StartsWith("error INVALID_ARGUMENT"), HasSubstr("seed"),
                    HasSubstr("buckets.bytes_max")));
}

TEST(TroubleTest, WrongCallsAreRefusedAndNothingIsLost) {
  Cluster cluster(2, Spec(2));
  cluster.Start({"worker-0", {"20", "wrong_calls"}});
  cluster.Start({"worker-1", {"20"}});
  EXPECT_EQ(cluster.Run(), 0);
  for (const char* line :
       {"duplicate: ALREADY_EXISTS", "integer: INVALID_ARGUMENT",
        "axis: INVALID_ARGUMENT", "unsealed: FAILED_PRECONDITION",
        "late: FAILED_PRECONDITION", "unknown: INVALID_ARGUMENT",
        "size: INVALID_ARGUMENT", "submit: OK", "twice: INVALID_ARGUMENT"}) {
    EXPECT_THAT(cluster.Lines("worker-0"), Contains(line));
  }
  EXPECT_EQ(cluster.LastLine("worker-0"), "done");
  EXPECT_EQ(cluster.LastLine("worker-1"), "done");
}

}  // namespace
}  // namespace lockstep::e2e
