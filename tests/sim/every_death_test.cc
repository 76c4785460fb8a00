// Three ranks train three steps, with the real coordinator, sessions and step
// agreement (training_world.h), and die: at every point of the history, and in
// every recovery from that, at every point again.
//
//   join ── steps ── leave        a point is one event of the world: a message
//        1   │                    that arrives, a deadline, the end of a
//            ▼                    collective at one rank
//      rank 0, 1 or 2 dies
//            │  recovery ──▶ the first step of the next epoch
//            ▼  2
//      rank 0, 1 or 2 dies, or the coordinator's process or machine does
//
// Nothing is drawn, so the histories differ by these points alone. In each the
// promises of the world hold, and the job completes with equal updates.
//
// A test takes one in LOCKSTEP_SIM_DEATH_STRIDE pairs of points; `./run long
// deaths` takes all.

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/sim/training_world.h"
#include "tests/support/sanitizers.h"

namespace lockstep::sim {
namespace {

constexpr int kRanks = 3;
constexpr uint64_t kNever = ~uint64_t{0};

enum Victim { kCoordinator = kRanks, kItsMachine, kVictims };

constexpr Death kDeaths[] = {
    {}, {.seen = true}, {.reported = true}, {.machine = true}};

struct Loss {
  uint64_t point = kNever;  // after so many events
  int victim = 0;
  Death death;
};

std::string Text(const Loss& loss) {
  if (loss.point == kNever) return "nobody";
  const std::string who = loss.victim == kCoordinator ? "the coordinator"
                          : loss.victim == kItsMachine
                              ? "the coordinator's machine"
                              : absl::StrCat("worker-", loss.victim);
  return absl::StrCat(who, loss.death.machine ? "'s machine" : "",
                      loss.death.seen ? " (seen)" : "",
                      loss.death.reported ? " (reported)" : "", " after ",
                      loss.point, " events");
}

class EveryDeath : public testing::TestWithParam<int> {
 protected:
  TrainingOptions Options() const {
    return {.mesh = {{{"data", kRanks}}},
            .steps = 3,
            .is_regular = true,
            .slow_rank = GetParam()};
  }

  // Runs one history to its end; false if it broke a promise. `span`: the
  // events from the first loss to the first step after it.
  bool Run(const Loss& first, const Loss& second, uint64_t* span = nullptr) {
    TrainingWorld world(Options());
    uint64_t epoch = 0;  // in which steps were applied before the loss
    do {
      const uint64_t now = world.events_run();
      if (now == first.point) {
        epoch = world.newest_update();
        Kill(&world, first);
      }
      if (now == second.point) Kill(&world, second);
      const bool is_over = world.newest_update() > epoch || world.AllDone();
      if (span != nullptr && *span == 0 && now > first.point && is_over) {
        *span = now - first.point;
      }
    } while (world.RunOne());
    world.CheckEnd();
    ++histories_;
    events_ += world.events_run();
    replays_ += world.counts().replays;
    roll_forwards_ += world.counts().roll_forwards;
    if (world.violations().empty() && world.completed()) return true;
    ReportBroken(first, second);
    return false;
  }

  void ReportBroken(const Loss& first, const Loss& second) {
    TrainingOptions options = Options();
    options.story = true;
    TrainingWorld world(options);
    do {
      if (world.events_run() == first.point) Kill(&world, first);
      if (world.events_run() == second.point) Kill(&world, second);
    } while (world.RunOne());
    world.CheckEnd();
    ADD_FAILURE() << "slow rank " << GetParam() << ", lost " << Text(first)
                  << " and " << Text(second) << ": "
                  << absl::StrJoin(world.violations(), "\n")
                  << (world.completed() ? "" : "; the job does not complete")
                  << "\n"
                  << world.Story();
  }

  static void Kill(TrainingWorld* world, const Loss& loss) {
    if (loss.victim < kRanks)
      return world->CrashWorker(loss.victim, loss.death);
    world->CrashCoordinator(/*machine=*/loss.victim == kItsMachine);
  }

  // The number of events without a loss.
  uint64_t Points() {
    TrainingWorld world(Options());
    world.Run();
    EXPECT_TRUE(world.completed());
    return world.events_run();
  }

  void Print(const char* what) const {
    std::cout << what << ", slow rank " << GetParam() << ": " << histories_
              << " histories, " << events_ << " events, ranks that replayed "
              << replays_ << ", rolled forward " << roll_forwards_ << "\n";
  }

  uint64_t histories_ = 0;
  uint64_t events_ = 0;
  int replays_ = 0;
  int roll_forwards_ = 0;
};

TEST_P(EveryDeath, AtEveryPointLosesNoStep) {
  const uint64_t points = Points();
  const uint64_t stride = kUnderSanitizer ? 13 : 1;
  for (uint64_t point = 0; point < points; point += stride) {
    for (int victim = 0; victim < kVictims; ++victim) {
      for (const Death& death : kDeaths) {
        if (!Run({point, victim, death}, {})) return;
        if (victim >= kRanks) break;
      }
    }
  }
  Print("one loss");
  EXPECT_GT(replays_, 0);
  EXPECT_TRUE(roll_forwards_ > 0 || GetParam() < 0);
}

TEST_P(EveryDeath, AtEveryPointOfARecoveryLosesNoStep) {
  uint64_t stride = 499;
  if (const char* const text = std::getenv("LOCKSTEP_SIM_DEATH_STRIDE")) {
    ASSERT_TRUE(absl::SimpleAtoi(text, &stride) && stride > 0) << text;
  }
  const uint64_t points = Points();
  uint64_t pair = 0;
  for (uint64_t point = 0; point < points; point += kUnderSanitizer ? 17 : 1) {
    for (int victim = 0; victim < kRanks; ++victim) {
      const Death death = kDeaths[(point + victim) % std::size(kDeaths)];
      const Loss first{point, victim, death};
      uint64_t span = 0;
      if (!Run(first, {}, &span)) return;
      for (uint64_t later = 0; later <= span; ++later) {
        for (int second = 0; second < kVictims; ++second) {
          if (pair++ % stride != 0) continue;
          const Death how = kDeaths[(later + second) % std::size(kDeaths)];
          if (!Run(first, {point + later, second, how})) return;
        }
      }
    }
  }
  std::cout << pair << " pairs of points; ";
  Print("two losses");
  EXPECT_GT(replays_, 0);
  EXPECT_TRUE(roll_forwards_ > 0 || GetParam() < 0 || kUnderSanitizer);
}

INSTANTIATE_TEST_SUITE_P(SlowRank, EveryDeath, testing::Range(-1, kRanks),
                         [](const auto& info) {
                           return info.param < 0
                                      ? std::string("None")
                                      : absl::StrCat("Rank", info.param);
                         });

}  // namespace
}  // namespace lockstep::sim
