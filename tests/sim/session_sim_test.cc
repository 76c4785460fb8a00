// Promises of the client's and the coordinator's state machines together, over
// seeded histories of broken streams, crashes and errors.

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/session_world.h"
#include "tests/support/sanitizers.h"

namespace lockstep::sim {
namespace {

using session::SessionPhase;
using testing::HasSubstr;

constexpr uint64_t kSeeds = kUnderSanitizer ? 100 : 500;

// Holds in every history.
void ExpectClearEnds(const SessionWorld& world) {
  for (const SimWorker& worker : world.workers()) {
    EXPECT_TRUE(worker.done()) << worker.name() << " goes on for ever";
    if (!worker.alive() || !worker.done()) continue;
    const session::View& view = worker.view();
    EXPECT_TRUE(worker.trained_all() || !view.status.ok())
        << worker.name() << " stopped without a reason";
    EXPECT_TRUE(view.status.ok() || !view.status.message().empty());
    // At most ten reports in a second, at any step rate.
    const auto& pulses = worker.pulses();
    for (size_t i = 10; i < pulses.size(); ++i) {
      EXPECT_GE(pulses[i] - pulses[i - 10], absl::Milliseconds(999));
    }
  }
}

// Expects that all trained to the end, in one epoch, with different ranks.
void ExpectOneEpochTrainedByAll(SessionWorld& world) {
  std::set<int> ranks;
  for (const SimWorker& worker : world.workers()) {
    EXPECT_TRUE(worker.trained_all()) << worker.name();
    if (!worker.trained_all()) continue;
    EXPECT_EQ(worker.view().epoch, EpochId{1});
    EXPECT_EQ(worker.view().leave_status, absl::OkStatus());
    EXPECT_EQ(worker.view().members[worker.view().rank].worker.value,
              worker.name());
    ranks.insert(worker.view().rank);
  }
  EXPECT_EQ(ranks.size(), world.workers().size());
  EXPECT_EQ(world.coordinator().Describe({"job"}, world.now())->state,
            JobState::kCompleted);
}

// Runs a history for every seed; stops at the first that breaks a promise.
template <typename Check>
void ForEverySeed(const Faults& faults, int max_restarts, const Check& check) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const int workers = 1 + static_cast<int>(seed % 5);
    SessionWorld world(seed, workers, faults, max_restarts);
    world.Run();
    ExpectClearEnds(world);
    check(world);
    if (testing::Test::HasFailure()) {
      FAIL() << "seed " << seed << ", " << workers << " workers:\n"
             << world.Story();
    }
  }
}

TEST(SessionSimTest, WithoutFaultsAllTrainToTheEnd) {
  ForEverySeed({}, 0, ExpectOneEpochTrainedByAll);
}

TEST(SessionSimTest, CutStreamsEndNoEpoch) {
  ForEverySeed({.mean_between_cuts = absl::Milliseconds(500)}, 0,
               ExpectOneEpochTrainedByAll);
}

TEST(SessionSimTest, ACoordinatorThatRestartsEndsNoEpoch) {
  ForEverySeed({.coordinator_crashes = 2}, 0, ExpectOneEpochTrainedByAll);
}

TEST(SessionSimTest, NorDoesOneThatKnowsNothing) {
  ForEverySeed({.coordinator_crashes = 2, .journal_is_lost = true}, 0,
               ExpectOneEpochTrainedByAll);
}

TEST(SessionSimTest, NorDoBothTogether) {
  ForEverySeed(
      {.mean_between_cuts = absl::Seconds(2), .coordinator_crashes = 2}, 0,
      ExpectOneEpochTrainedByAll);
}

TEST(SessionSimTest, AWorkerThatComesBackLetsAllTrainToTheEnd) {
  ForEverySeed({.worker_crashes = 1}, 5, [](SessionWorld& world) {
    for (const SimWorker& worker : world.workers()) {
      EXPECT_TRUE(worker.trained_all()) << worker.name();
    }
  });
}

TEST(SessionSimTest, AMissingWorkerIsNamedToAllOthers) {
  ForEverySeed({.one_is_missing = true}, 0, [](SessionWorld& world) {
    std::string missing;
    for (const SimWorker& worker : world.workers()) {
      if (!worker.alive()) missing = worker.name();
    }
    for (const SimWorker& worker : world.workers()) {
      if (!worker.alive()) continue;
      EXPECT_EQ(worker.view().status.code(),
                absl::StatusCode::kDeadlineExceeded);
      EXPECT_THAT(worker.view().status.message(), HasSubstr(missing));
    }
  });
}

TEST(SessionSimTest, ALocalFailureIsToldToAll) {
  ForEverySeed(
      {.mean_between_cuts = absl::Seconds(1), .one_fails_locally = true}, 0,
      [](SessionWorld& world) {
        for (const SimWorker& worker : world.workers()) {
          EXPECT_THAT(worker.view().status.message(), HasSubstr("loss is NaN"));
        }
      });
}

TEST(SessionSimTest, AMismatchIsToldToAll) {
  ForEverySeed(
      {.mean_between_cuts = absl::Seconds(1), .one_registers_otherwise = true},
      0, [](SessionWorld& world) {
        if (world.workers().size() == 1) return;
        for (const SimWorker& worker : world.workers()) {
          EXPECT_EQ(worker.view().status.code(),
                    absl::StatusCode::kInvalidArgument);
          EXPECT_THAT(worker.view().status.message(), HasSubstr("w"));
        }
      });
}

TEST(SessionSimTest, EverythingAtOnceStillHasAnEnd) {
  ForEverySeed({.mean_between_cuts = absl::Milliseconds(300),
                .coordinator_crashes = 3,
                .outage_max = absl::Seconds(5),
                .worker_crashes = 3},
               3, [](SessionWorld&) {});
}

}  // namespace
}  // namespace lockstep::sim
