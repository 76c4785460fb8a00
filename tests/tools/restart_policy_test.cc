#include "tools/ctl/restart_policy.h"

#include <optional>

#include "gtest/gtest.h"

namespace lockstep::ctl {
namespace {

const absl::Time kBegin = absl::FromUnixSeconds(1'000'000);
constexpr absl::Duration kGrace = absl::Seconds(10);

absl::Time At(double seconds) { return kBegin + absl::Seconds(seconds); }

Restart Now(int number) { return {number, absl::ZeroDuration()}; }

TEST(RestartPolicyTest, StartsTheFirstWorkerAtOnce) {
  RestartPolicy policy(3, kGrace);
  EXPECT_EQ(policy.OnFailure("w-2", At(0)), Now(1));
  EXPECT_EQ(policy.used(), 1);
}

TEST(RestartPolicyTest, WithoutRestartsNobodyStartsAgain) {
  RestartPolicy policy(0, kGrace);
  EXPECT_EQ(policy.OnFailure("w-2", At(0)), std::nullopt);
  EXPECT_EQ(policy.used(), 0);
}

// Workers that do not recover exit when their epoch ends.
TEST(RestartPolicyTest, OtherWorkersWithinTheGraceBelongToTheIncident) {
  RestartPolicy policy(1, kGrace);
  EXPECT_EQ(policy.OnFailure("w-2", At(0)), Now(1));
  EXPECT_EQ(policy.OnFailure("w-0", At(0.1)), Now(1));
  EXPECT_EQ(policy.OnFailure("w-1", At(10)), Now(1));
  EXPECT_EQ(policy.used(), 1);
}

TEST(RestartPolicyTest, AFailureAfterTheGraceIsANewIncident) {
  RestartPolicy policy(2, kGrace);
  policy.OnFailure("w-2", At(0));
  EXPECT_EQ(policy.OnFailure("w-0", At(10.1))->number, 2);
  EXPECT_EQ(policy.OnFailure("w-2", At(10.2))->number, 2)
      << "once in each incident";
  EXPECT_EQ(policy.OnFailure("w-1", At(20.2)), std::nullopt);
}

TEST(RestartPolicyTest, AWorkerThatFailsAgainBeginsANewIncident) {
  RestartPolicy policy(2, kGrace);
  policy.OnFailure("w-2", At(0));
  EXPECT_EQ(policy.OnFailure("w-2", At(1))->number, 2);
  EXPECT_EQ(policy.OnFailure("w-2", At(2)), std::nullopt);
  EXPECT_EQ(policy.used(), 2);
}

// One worker that has used them up takes no restart from the others of its
// incident.
TEST(RestartPolicyTest, TheLastIncidentStillTakesItsOtherWorkers) {
  RestartPolicy policy(1, kGrace);
  policy.OnFailure("w-2", At(0));
  EXPECT_EQ(policy.OnFailure("w-2", At(1)), std::nullopt);
  EXPECT_EQ(policy.OnFailure("w-0", At(1)), Now(1));
}

TEST(RestartPolicyTest, ConsecutiveIncidentsPauseTwiceAsLong) {
  RestartPolicy policy(100, kGrace);
  absl::Time now = At(0);
  EXPECT_EQ(policy.OnFailure("w", now), Now(1));
  for (const int ms :
       {100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000}) {
    const auto restart = policy.OnFailure("w", now);
    ASSERT_TRUE(restart.has_value());
    EXPECT_EQ(restart->pause, absl::Milliseconds(ms)) << restart->number;
    now += restart->pause;  // it fails as soon as it has started
  }
}

TEST(RestartPolicyTest, AMinuteWithoutAnIncidentEndsThePauses) {
  RestartPolicy policy(100, kGrace);
  policy.OnFailure("w", At(0));
  EXPECT_EQ(policy.OnFailure("w", At(0))->pause, absl::Milliseconds(100));
  EXPECT_EQ(policy.OnFailure("w", At(60))->pause, absl::Milliseconds(200))
      << "59.9 s after its start";
  EXPECT_EQ(policy.OnFailure("w", At(120.2))->pause, absl::ZeroDuration());
  EXPECT_EQ(policy.OnFailure("w", At(120.3))->pause, absl::Milliseconds(100));
}

TEST(RestartPolicyTest, AllWorkersOfAnIncidentStartAtTheSameTime) {
  RestartPolicy policy(2, kGrace);
  policy.OnFailure("w-0", At(0));
  EXPECT_EQ(policy.OnFailure("w-0", At(1))->pause, absl::Milliseconds(100));
  EXPECT_EQ(policy.OnFailure("w-1", At(1.075))->pause, absl::Milliseconds(25));
  EXPECT_EQ(policy.OnFailure("w-2", At(2))->pause, absl::ZeroDuration());
}

// A worker of a job that had taken its last step, when another one died before
// it had.
TEST(RestartPolicyTest, AWorkerThatEndedWellStartsAgainInAnIncidentOnly) {
  RestartPolicy policy(5, kGrace);
  EXPECT_EQ(policy.OnNeeded("w-0", At(0)), std::nullopt);
  policy.OnFailure("w-1", At(1));
  EXPECT_EQ(policy.OnNeeded("w-0", At(1)), Now(1));
  EXPECT_EQ(policy.OnNeeded("w-0", At(2)), std::nullopt) << "once";
  EXPECT_EQ(policy.OnNeeded("w-2", At(12)), std::nullopt) << "too late";
  EXPECT_EQ(policy.used(), 1);
}

// --grace 0: a worker that fails at the same moment belongs to the incident.
TEST(RestartPolicyTest, WithoutGraceTheMomentCounts) {
  RestartPolicy policy(5, absl::ZeroDuration());
  policy.OnFailure("w-1", At(0));
  EXPECT_EQ(policy.OnFailure("w-0", At(0))->number, 1);
  EXPECT_EQ(policy.OnFailure("w-2", At(0.001))->number, 2);
}

}  // namespace
}  // namespace lockstep::ctl
