// Histories of whole training jobs under faults of all kinds, each from a seed
// (training_world.h).
//
//   LOCKSTEP_SIM_SEED=17      runs that seed alone and prints its story if a
//                             promise is broken
//   LOCKSTEP_SIM_SEEDS=10000  runs so many, instead of as many as fit in a time

#include <cstdlib>
#include <iostream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/sim/training_world.h"
#include "tests/support/sanitizers.h"

namespace lockstep::sim {
namespace {

// Each seed has its own mix: few kinds of faults together find more than all.
TrainingOptions OptionsOf(uint64_t seed) {
  std::mt19937_64 random(seed * 7919);
  const auto sometimes = [&](int max) {
    return random() % 2 == 0 ? static_cast<int>(random() % (max + 1)) : 0;
  };
  TrainingOptions options{.seed = seed};
  switch (random() % 6) {
    case 0: options.mesh = {{{"data", 1}}}; break;
    case 1: options.mesh = {{{"data", 2}}}; break;
    case 2: options.mesh = {{{"data", 2}, {"model", 2}}}; break;
    case 3: options.mesh = {{{"data", 4}}}; break;
    default: break;
  }
  options.faults = {.worker_crashes = sometimes(3),
                    .worker_stops = sometimes(2),
                    .worker_moves = random() % 4 == 0 ? 1 : 0,
                    .impostors = random() % 4 == 0 ? 3 : 0,
                    .coordinator_crashes = sometimes(3),
                    .coordinator_stops = sometimes(1),
                    .partitions = sometimes(2),
                    .broken_links = sometimes(1),
                    .local_failures = sometimes(1),
                    .at_verdicts = sometimes(2),
                    .at_last_steps = random() % 4 == 0 ? 2 : 0,
                    .in_recoveries = sometimes(2),
                    .skewed_clocks = random() % 2 == 0};
  if (random() % 3 == 0) {
    options.faults.mean_between_cuts = absl::Milliseconds(500);
  }
  if (random() % 4 == 0) options.faults.sync_max = absl::Milliseconds(500);
  if (random() % 3 == 0) options.is_elastic = true;
  if (random() % 5 == 0) options.spares = 1;
  if (random() % 2 == 0) options.faults.restart_max = absl::Seconds(6);
  return options;
}

uint64_t FromEnvironment(const char* name) {
  const char* const text = std::getenv(name);
  uint64_t value = 0;
  if (text == nullptr) return 0;
  EXPECT_TRUE(absl::SimpleAtoi(text, &value)) << name;
  return value;
}

void ReportBroken(uint64_t seed) {
  TrainingOptions options = OptionsOf(seed);
  options.story = true;
  TrainingWorld world(options);
  world.Run();
  std::string story = world.Story();
  constexpr size_t kStoryMax = 60'000;
  if (std::getenv("LOCKSTEP_SIM_SEED") == nullptr && story.size() > kStoryMax) {
    story = absl::StrCat("...", story.substr(story.size() - kStoryMax));
  }
  ADD_FAILURE() << "seed " << seed << ": "
                << absl::StrJoin(world.violations(), "\n")
                << "\nreplay: LOCKSTEP_SIM_SEED=" << seed
                << " build/release/bin/training_sim_test "
                   "--gtest_filter=TrainingSimTest.*\n"
                << story;
}

TEST(TrainingSimTest, EveryHistoryKeepsItsPromises) {
  const uint64_t only = FromEnvironment("LOCKSTEP_SIM_SEED");
  if (only > 0) {
    TrainingWorld world(OptionsOf(only));
    world.Run();
    std::cout << "seed " << only << ": " << world.events_run() << " events, "
              << world.violations().size() << " broken promises\n";
    if (!world.violations().empty()) ReportBroken(only);
    return;
  }
  const uint64_t seeds = FromEnvironment("LOCKSTEP_SIM_SEEDS");
  const absl::Time end =
      absl::Now() + (kUnderSanitizer ? absl::Seconds(10) : absl::Seconds(50));
  TrainingWorld::Counts sum;
  uint64_t seed = 0;
  uint64_t events = 0;
  while (seeds > 0 ? seed < seeds : seed < 20 || absl::Now() < end) {
    ++seed;
    TrainingWorld world(OptionsOf(seed));
    world.Run();
    events += world.events_run();
    const TrainingWorld::Counts& counts = world.counts();
    sum.epochs += counts.epochs;
    sum.replays += counts.replays;
    sum.roll_forwards += counts.roll_forwards;
    sum.restores += counts.restores;
    sum.received += counts.received;
    sum.switched += counts.switched;
    sum.failed_jobs += counts.failed_jobs;
    sum.smaller += counts.smaller;
    sum.grown += counts.grown;
    sum.unneeded += counts.unneeded;
    sum.recalled += counts.recalled;
    sum.registered_again += counts.registered_again;
    if (!world.violations().empty()) {
      ReportBroken(seed);
      break;
    }
  }
  std::cout << seed << " seeds, " << events << " events, " << sum.epochs
            << " epochs, ranks that replayed " << sum.replays
            << ", rolled forward " << sum.roll_forwards << ", restored "
            << sum.restores << ", received the state " << sum.received
            << ", switched plans " << sum.switched << ", grew " << sum.grown
            << "; smaller epochs " << sum.smaller
            << ", workers that were not needed " << sum.unneeded
            << ", jobs that failed " << sum.failed_jobs
            << ", plans that a rank gave back " << sum.recalled
            << ", epochs that registered again " << sum.registered_again
            << "\n";
  if (HasFailure() || seed < 1000) return;
  EXPECT_GT(sum.replays, 100);
  EXPECT_GT(sum.roll_forwards, 10);
  EXPECT_GT(sum.restores, 10);
  EXPECT_GT(sum.received, 100);
  EXPECT_GT(sum.switched, 100);
  EXPECT_GT(sum.smaller, 10);
  EXPECT_GT(sum.grown, 10);
  EXPECT_GT(sum.recalled, 100);
  EXPECT_LT(sum.failed_jobs, static_cast<int>(seed / 10));
}

}  // namespace
}  // namespace lockstep::sim
