#include "plan/schedule/schedule.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/schedule/play.h"
#include "tests/plan/schedule/shapes.h"

namespace lockstep::plan {
namespace {

using testing::HasSubstr;
using enum PipelineSchedule;

// "F0 F1 B0": the micro-batches of one rank; for virtual stages with the stage,
// "F0@3".
std::string OrderOf(const ScheduleShape& shape, int rank) {
  const absl::StatusOr<Schedule> schedule = MakeSchedule(shape);
  if (!schedule.ok()) return std::string(schedule.status().message());
  std::string text;
  for (const Action& action : schedule->ranks[rank]) {
    const char letter[] = {' ', 'F', 'B', 'I', 'W'};
    absl::StrAppend(&text, text.empty() ? "" : " ",
                    std::string(1, letter[static_cast<int>(action.work)]),
                    action.micro_batch);
    if (shape.virtual_stages > 1) absl::StrAppend(&text, "@", action.stage);
  }
  return text;
}

TEST(ScheduleTest, GPipeGoesAllForwardThenAllBackward) {
  for (const int rank : {0, 1, 2}) {
    EXPECT_EQ(OrderOf({kGPipe, 3, 3, 1}, rank), "F0 F1 F2 B0 B1 B2");
  }
}

TEST(ScheduleTest, OneFOneBWarmsUpByTheRanksBehind) {
  EXPECT_EQ(OrderOf({kOneFOneB, 1, 4, 1}, 0), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(OrderOf({kOneFOneB, 4, 4, 1}, 0), "F0 F1 F2 F3 B0 B1 B2 B3");
  EXPECT_EQ(OrderOf({kOneFOneB, 4, 4, 1}, 3), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(OrderOf({kOneFOneB, 4, 6, 1}, 1),
            "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5");
  EXPECT_EQ(OrderOf({kOneFOneB, 4, 2, 1}, 0), "F0 F1 B0 B1");
}

TEST(ScheduleTest, InterleavedGoesInRoundsThroughItsStages) {
  EXPECT_EQ(OrderOf({kInterleaved, 2, 4, 2}, 0),
            "F0@0 F1@0 F0@2 F1@2 F2@0 B0@2 F3@0 B1@2 F2@2 B0@0 F3@2 B1@0 "
            "B2@2 B3@2 B2@0 B3@0");
  EXPECT_EQ(OrderOf({kInterleaved, 2, 4, 2}, 1),
            "F0@1 F1@1 F0@3 B0@3 F1@3 B1@3 F2@1 B0@1 F3@1 B1@1 F2@3 B2@3 "
            "F3@3 B3@3 B2@1 B3@1");
}

TEST(ScheduleTest, ZbH1PutsWeightGradientsOff) {
  EXPECT_EQ(OrderOf({kZbH1, 2, 3, 1}, 0), "F0 F1 I0 W0 F2 I1 W1 I2 W2");
  EXPECT_EQ(OrderOf({kZbH1, 2, 3, 1}, 1), "F0 I0 F1 I1 W0 F2 I2 W1 W2");
}

TEST(ScheduleTest, ZbVRunsThereAndBack) {
  EXPECT_EQ(RankOf({kZbV, 3, 3, 2}, 2), 2);
  EXPECT_EQ(RankOf({kZbV, 3, 3, 2}, 3), 2);
  EXPECT_EQ(RankOf({kZbV, 3, 3, 2}, 5), 0);
  EXPECT_EQ(OrderOf({kZbV, 2, 2, 2}, 0),
            "F0@0 F1@0 F0@3 I0@3 F1@3 I1@3 I0@0 W0@3 I1@0 W1@3 W0@0 W1@0");
}

TEST(ScheduleTest, StagesAndPlacesAreEachOthersInverse) {
  for (const ScheduleShape& shape : AllShapes()) {
    for (int rank = 0; rank < shape.ranks; ++rank) {
      for (int chunk = 0; chunk < shape.virtual_stages; ++chunk) {
        EXPECT_EQ(RankOf(shape, StageOf(shape, rank, chunk)), rank);
      }
    }
  }
}

TEST(ScheduleTest, EveryStageHasEachMicroBatchOnce) {
  for (const ScheduleShape& shape : AllShapes()) {
    SCOPED_TRACE(testing::PrintToString(shape));
    const absl::StatusOr<Schedule> schedule = MakeSchedule(shape);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    std::map<std::tuple<Work, int, int>, int> times;
    for (int rank = 0; rank < shape.ranks; ++rank) {
      for (const Action& action : schedule->ranks[rank]) {
        ASSERT_EQ(RankOf(shape, action.stage), rank);
        ++times[{action.work, action.stage, action.micro_batch}];
      }
    }
    const bool split = shape.kind == kZbH1 || shape.kind == kZbV;
    EXPECT_EQ(times.size(), static_cast<size_t>(shape.stages()) *
                                shape.micro_batches * (split ? 3 : 2));
    for (const auto& [action, count] : times) ASSERT_EQ(count, 1);
  }
}

// All shapes with S <= 8, M <= 16, V <= 4.
TEST(ScheduleTest, EveryScheduleMeetsItsProvenBubble) {
  int proven = 0;
  for (const ScheduleShape& shape : AllShapes()) {
    const Schedule schedule = *MakeSchedule(shape);
    for (const WorkTimes& times : SomeTimes()) {
      const std::optional<double> bubble = ProvenBubble(shape, times);
      if (!bubble.has_value()) continue;
      const absl::StatusOr<PlayedSchedule> played = Play(schedule, times);
      ASSERT_TRUE(played.ok()) << played.status();
      ASSERT_NEAR(played->bubble, *bubble, 1e-12)
          << testing::PrintToString(shape) << " with F=" << times.forward
          << " B=" << times.backward_input << " W=" << times.backward_weight;
      ++proven;
    }
  }
  EXPECT_GT(proven, 5000);
}

// Activations that a rank keeps: forward done, weight gradient not yet.
int MostKept(const std::vector<Action>& order) {
  int kept = 0;
  int most = 0;
  for (const Action& action : order) {
    if (action.work == Work::kForward) ++kept;
    if (EndsMicroBatch(action.work)) --kept;
    most = std::max(most, kept);
  }
  return most;
}

TEST(ScheduleTest, AllButGPipeBoundWhatIsKept) {
  for (const ScheduleShape& shape : AllShapes()) {
    const Schedule schedule = *MakeSchedule(shape);
    for (int rank = 0; rank < shape.ranks; ++rank) {
      const int kept = MostKept(schedule.ranks[rank]);
      switch (shape.kind) {
        case kGPipe: EXPECT_EQ(kept, shape.micro_batches); break;
        case kOneFOneB:
          EXPECT_EQ(kept, std::min(shape.ranks - rank, shape.micro_batches));
          break;
        case kInterleaved:
          EXPECT_EQ(kept,
                    std::min(shape.micro_batches * shape.virtual_stages,
                             2 * (shape.ranks - rank - 1) + 1 +
                                 (shape.virtual_stages - 1) * shape.ranks));
          break;
        case kZbH1: EXPECT_LE(kept, shape.ranks); break;
        case kZbV: EXPECT_LE(kept, 2 * shape.ranks); break;
        case kNone: FAIL();
      }
    }
  }
}

TEST(ScheduleTest, OutsideOfTheDomainIsAnErrorThatSaysIt) {
  const struct {
    ScheduleShape shape;
    const char* domain;
  } cases[] = {
      {{kGPipe, 0, 4, 1}, "at least 1"},
      {{kOneFOneB, 4, 0, 1}, "at least 1"},
      {{kOneFOneB, 4, 4, 0}, "at least 1"},
      {{kOneFOneB, -4, 4, 1}, "at least 1"},
      {{kOneFOneB, 1024, 1025, 1}, "at most 1048576"},
      {{kGPipe, 4, 4, 2}, "1 virtual stage of"},
      {{kOneFOneB, 4, 4, 2}, "1 virtual stage of"},
      {{kInterleaved, 4, 4, 1}, "at least 2 virtual stages"},
      {{kInterleaved, 4, 6, 2}, "multiple"},
      {{kZbH1, 4, 3, 1}, "as many micro-batches as stages"},
      {{kZbH1, 4, 4, 2}, "1 virtual stage of"},
      {{kZbV, 4, 3, 2}, "as many micro-batches as stages"},
      {{kZbV, 4, 4, 1}, "2 virtual stages of"},
      {{kNone, 4, 4, 1}, "no such schedule"},
  };
  for (const auto& c : cases) {
    const absl::Status refused = MakeSchedule(c.shape).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr(c.domain));
  }
}

TEST(ScheduleTest, OrdersThatContradictAreNamed) {
  Schedule schedule = *MakeSchedule({kOneFOneB, 2, 2, 1});
  std::reverse(schedule.ranks[1].begin(), schedule.ranks[1].end());
  const absl::Status stuck = Play(schedule, {}).status();
  EXPECT_EQ(stuck.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(stuck.message()),
              HasSubstr("backward of stage 0, micro-batch 0"));
}

}  // namespace
}  // namespace lockstep::plan
