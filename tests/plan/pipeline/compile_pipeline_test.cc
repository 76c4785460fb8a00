// Compiled pipelines, and the verifier's findings on them.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "plan/digest.h"
#include "plan/schedule/play.h"
#include "plan/shard.h"
#include "plan/timeline/timeline.h"
#include "plan/verify/verify.h"
#include "tests/plan/pipeline/pipelines.h"
#include "tests/plan/registrations.h"
#include "tests/plan/schedule/shapes.h"

namespace lockstep::plan {
namespace {

using testing::HasSubstr;
using enum PipelineSchedule;

const Lane& LaneCalled(const RankPlan& rank, const std::string& name) {
  for (const Lane& lane : rank.lanes) {
    if (lane.name == name) return lane;
  }
  ADD_FAILURE() << "no lane " << name;
  return rank.lanes[0];
}

TEST(CompilePipelineTest, HasALaneForEachNeighbourAndDirection) {
  const Plan plan = *Compile(PipelineInput({kOneFOneB, 3, 4, 1}));
  const auto names = [&](int rank) {
    std::set<std::string> names;
    for (const Lane& lane : plan.ranks[rank].lanes) names.insert(lane.name);
    return names;
  };
  EXPECT_EQ(names(0), (std::set<std::string>{"gradient", "to rank 1",
                                             "from rank 1", "verdict"}));
  EXPECT_EQ(names(1),
            (std::set<std::string>{"gradient", "to rank 0", "from rank 0",
                                   "to rank 2", "from rank 2", "verdict"}));
  std::set<std::string> communicators;
  for (const CommunicatorSpec& c : plan.communicators)
    communicators.insert(c.name);
  for (const char* name : {"pipe@0>1", "pipe@1>0", "pipe@1>2", "pipe@2>1"}) {
    EXPECT_TRUE(communicators.contains(name)) << name;
  }
}

TEST(CompilePipelineTest, LanesAreInOrderOfMicroBatchAndPart) {
  const Plan plan = *Compile(PipelineInput(
      {kOneFOneB, 2, 3, 1}, 1, {{DType::kF32, {4}}, {DType::kI32, {2}}}));
  const std::vector<Transfer>& sends =
      LaneCalled(plan.ranks[0], "to rank 1").transfers;
  ASSERT_EQ(sends.size(), 6u);
  for (int m = 0; m < 3; ++m) {
    const Transfer& hidden = sends[2 * m];
    const Transfer& mask = sends[2 * m + 1];
    EXPECT_EQ(hidden.tag, static_cast<uint64_t>(m * 2 * 2));
    EXPECT_EQ(mask.tag, hidden.tag + 1);
    EXPECT_EQ(mask.dtype, DType::kI32);
    EXPECT_NE(hidden.group, 0);
    EXPECT_EQ(hidden.group, mask.group);
    EXPECT_NE(hidden.buffer, mask.buffer);
    EXPECT_EQ(plan.ranks[0].tasks[hidden.after_task].micro_batch, m);
  }
  // A mask has no gradient.
  const std::vector<Transfer>& gradients =
      LaneCalled(plan.ranks[0], "from rank 1").transfers;
  ASSERT_EQ(gradients.size(), 3u);
  EXPECT_EQ(gradients[0].shape, std::vector<int64_t>{4});
  EXPECT_EQ(gradients[0].group, 0);
  EXPECT_EQ(Verify(plan), absl::OkStatus());
}

// Any valid order of ranks, tasks and transfers.
TEST(CompilePipelineTest, EveryValidScheduleVerifiesAndMeetsItsBubble) {
  for (const ScheduleShape& shape : AllShapes()) {
    const absl::StatusOr<Plan> plan = Compile(PipelineInput(shape));
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_EQ(Verify(*plan), absl::OkStatus()) << testing::PrintToString(shape);
    const absl::StatusOr<Timeline> timeline = TimelineOf(*plan, {});
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    const std::optional<double> proven = ProvenBubble(shape, {});
    ASSERT_TRUE(proven.has_value());
    ASSERT_NEAR(timeline->bubble, *proven, 1e-12)
        << testing::PrintToString(shape);
  }
}

TEST(CompilePipelineTest, ReplicasVerifyToo) {
  for (const ScheduleShape& shape : AllShapes(4, 4, 2)) {
    const Plan plan = *Compile(PipelineInput(shape, 3));
    ASSERT_EQ(Verify(plan), absl::OkStatus()) << testing::PrintToString(shape);
  }
}

TEST(CompilePipelineTest, NoTwoMessagesHaveOneTag) {
  for (const ScheduleShape& shape : AllShapes(4, 8, 3)) {
    const Plan plan = *Compile(PipelineInput(
        shape, 1, {{DType::kF32, {4}}, {DType::kF64, {2}}, {DType::kU8, {}}}));
    std::set<uint64_t> tags;
    for (const RankPlan& rank : plan.ranks) {
      for (const Lane& lane : rank.lanes) {
        for (const Transfer& t : lane.transfers) {
          if (t.kind != TransferKind::kSend) continue;
          EXPECT_TRUE(tags.insert(t.tag).second) << "tag " << t.tag;
        }
      }
    }
  }
}

TEST(CompilePipelineTest, PairedTagsAreTheSeeds) {
  PlanInput input = PipelineInput({kOneFOneB, 3, 4, 1});
  input.pipeline.tags = PipelineTags::kPaired;
  input.pipeline.tag_base = 100;
  const Plan plan = *Compile(input);
  for (int m = 0; m < 4; ++m) {
    EXPECT_EQ(LaneCalled(plan.ranks[1], "to rank 2").transfers[m].tag,
              static_cast<uint64_t>(100 + 2 * m));
    EXPECT_EQ(LaneCalled(plan.ranks[1], "to rank 0").transfers[m].tag,
              static_cast<uint64_t>(100 + 2 * m + 1));
  }
  EXPECT_EQ(Verify(plan), absl::OkStatus());

  input.pipeline.tag_base = 0xffffffff - 6;
  EXPECT_THAT(ErrorOf(input), HasSubstr("beyond the largest"));
  input.pipeline.tag_base -= 1;
  EXPECT_TRUE(Compile(input).ok());
  PlanInput interleaved = PipelineInput({kInterleaved, 2, 4, 2});
  interleaved.pipeline.tags = PipelineTags::kPaired;
  EXPECT_THAT(ErrorOf(interleaved), HasSubstr("use safe"));
}

TEST(CompilePipelineTest, SafeTagsThatOverflowAreRefused) {
  PlanInput input = PipelineInput({kOneFOneB, 3, 4, 1});
  input.pipeline.tag_base = 0xffffffff - 15;
  EXPECT_TRUE(Compile(input).ok());
  input.pipeline.tag_base += 1;
  EXPECT_THAT(ErrorOf(input), HasSubstr("beyond the largest"));
  input.pipeline.tag_base = UINT64_MAX;
  EXPECT_THAT(ErrorOf(input), HasSubstr("beyond the largest"));
}

TEST(CompilePipelineTest, KeepsFewBuffers) {
  const Plan plan = *Compile(PipelineInput({kOneFOneB, 4, 16, 1}));
  const int64_t message = 4 * 8 * 4;
  // Rank 1 keeps as many activations as 1F1B and receives the next one
  // meanwhile; it keeps one gradient, and two buffers of each kind that it
  // sends.
  EXPECT_EQ(BufferBytes(plan.ranks[1]), (3 + 1 + 1 + 2 + 2) * message);
  EXPECT_EQ(BufferBytes(plan.ranks[3]), (1 + 1 + 2) * message);
  EXPECT_EQ(ActivationsKept(plan.ranks[0]), (std::map<int, int>{{0, 4}}));
}

TEST(CompilePipelineTest, GradientsFollowTheLastTaskOfAllWhoHoldThem) {
  PlanInput input = PipelineInput({kGPipe, 2, 3, 1}, 2);
  for (auto& rank : input.registrations) {
    rank.push_back({.name = "everywhere", .shape = {5}});
  }
  const Plan plan = *Compile(input);
  ASSERT_EQ(Verify(plan), absl::OkStatus());
  for (const RankPlan& rank : plan.ranks) {
    for (const Transfer& reduction : rank.lanes[0].transfers) {
      EXPECT_EQ(reduction.after_task, static_cast<int>(rank.tasks.size()) - 1);
    }
    // In bucket order, after all messages.
    const int verdict = static_cast<int>(rank.lanes.size()) - 1;
    std::vector<int> lanes;
    for (const TransferRef& ref : rank.launch_order) lanes.push_back(ref.lane);
    EXPECT_THAT(std::vector<int>(lanes.end() - 3, lanes.end()),
                testing::ElementsAre(0, verdict, verdict));
  }
}

TEST(CompilePipelineTest, SharedParametersMeetBeforeTheirReplicasDo) {
  PlanInput input = PipelineInput({kOneFOneB, 3, 4, 1}, 2);
  const Parameter tied{.name = "embed", .shape = {7, 2}, .axes = {"data"}};
  for (const int rank : {0, 2, 3, 5}) {
    input.registrations[rank].push_back(tied);
  }
  input.pipeline.shared = {"embed"};
  const Plan plan = *Compile(input);
  ASSERT_EQ(Verify(plan), absl::OkStatus());
  for (const int rank : {0, 2, 3, 5}) {
    const std::vector<Transfer>& shared =
        LaneCalled(plan.ranks[rank], "shared").transfers;
    ASSERT_EQ(shared.size(), 1u);
    EXPECT_EQ(shared[0].kind, TransferKind::kAllReduce);
    EXPECT_EQ(shared[0].shape, tied.shape);
    const Transfer& reduction = plan.ranks[rank].lanes[0].transfers.back();
    ASSERT_EQ(reduction.after.size(), 1u);
    EXPECT_EQ(plan.ranks[rank].lanes[reduction.after[0].lane].name, "shared");
  }
  input.registrations[2].pop_back();
  input.registrations[5].pop_back();
  EXPECT_THAT(ErrorOf(input), HasSubstr("embed, which rank 2"));
}

// --- Shared parameters in the norm ------------------------------------------

// A shared parameter of 14 elements, registered on the pipeline positions with
// the first and the last stage, and on `also`.
PlanInput WithShared(const ScheduleShape& shape, int data,
                     const Parameter& tied, std::set<int> also = {}) {
  PlanInput input = PipelineInput(shape, data);
  also.insert({RankOf(shape, 0), RankOf(shape, shape.stages() - 1)});
  for (int rank = 0; rank < input.mesh.WorldSize(); ++rank) {
    if (!also.contains(rank % shape.ranks)) continue;
    input.registrations[rank].push_back(tied);
  }
  input.pipeline.shared = {tied.name};
  return input;
}

// Elements of the parameter that all ranks together add to the global norm.
int64_t CountedOf(const Plan& plan, const std::string& name) {
  int64_t counted = 0;
  for (const RankPlan& rank : plan.ranks) {
    for (const Transfer& transfer : rank.lanes[0].transfers) {
      for (const LocalOp& op : transfer.then) {
        if (op.kind != LocalKind::kNorm) continue;
        for (const Slot& slot : plan.buckets[transfer.bucket].slots) {
          if (plan.parameters[slot.parameter].name != name) continue;
          counted += PartIn(slot, {op.offset, op.count}).count;
        }
      }
    }
  }
  return counted;
}

const Parameter kTied{.name = "tied", .shape = {7, 2}, .axes = {"data"}};

TEST(SharedParametersTest, AreCountedInTheNormOnce) {
  for (const ScheduleShape& shape :
       std::vector<ScheduleShape>{{kGPipe, 3, 3, 1},
                                  {kOneFOneB, 2, 4, 1},
                                  {kInterleaved, 2, 4, 2},
                                  {kZbH1, 4, 4, 1},
                                  {kZbV, 2, 4, 2}}) {
    for (const int data : {1, 2, 3}) {
      for (const SyncMode sync :
           {SyncMode::kStatic, SyncMode::kReduceScatter}) {
        SCOPED_TRACE(testing::PrintToString(shape));
        PlanInput input = WithShared(shape, data, kTied);
        input.sync = sync;
        const absl::StatusOr<Plan> plan = Compile(input);
        ASSERT_TRUE(plan.ok()) << plan.status();
        EXPECT_EQ(CountedOf(*plan, "tied"), 14) << "data=" << data;
        EXPECT_EQ(CountedOf(*plan, "stage0"), 48);
        EXPECT_EQ(Verify(*plan), absl::OkStatus());
        const absl::StatusOr<Plan> recut = Recut(
            *plan, {.first_bytes_max = 64, .bytes_max = 64}, OrderOf(*plan));
        ASSERT_TRUE(recut.ok()) << recut.status();
        EXPECT_EQ(CountedOf(*recut, "tied"), 14);
      }
    }
  }
}

TEST(SharedParametersTest, AreCountedOnceInATree) {
  PlanInput input = WithShared({kOneFOneB, 2, 4, 1}, 2, kTied);
  input.leaves = 4;
  const Plan plan = *Compile(input);
  EXPECT_EQ(CountedOf(plan, "tied"), 14);
  EXPECT_EQ(Verify(plan), absl::OkStatus());
}

TEST(SharedParametersTest, KeepTheReplicasThatAreStated) {
  Parameter stated = kTied;
  stated.replicated_over = {"pipe"};
  const ScheduleShape shape{kOneFOneB, 3, 4, 1};
  EXPECT_EQ(*Compile(WithShared(shape, 2, kTied)),
            *Compile(WithShared(shape, 2, stated)));
  // Position 1 of the pipeline is not in the sum: its gradient differs, unless
  // the registration declares it a replica.
  EXPECT_EQ(CountedOf(*Compile(WithShared(shape, 2, kTied, {1})), "tied"), 28);
  EXPECT_EQ(CountedOf(*Compile(WithShared(shape, 2, stated, {1})), "tied"), 14);
}

// Only one end declares its copy a replica.
TEST(SharedParametersTest, AreCountedOnceIfOneEndStatesItsReplicas) {
  PlanInput input = WithShared({kOneFOneB, 2, 4, 1}, 1, kTied);
  input.registrations[1].back().replicated_over = {"pipe"};
  const Plan plan = *Compile(input);
  EXPECT_EQ(CountedOf(plan, "tied"), 14);
  EXPECT_EQ(Verify(plan), absl::OkStatus());
}

// The two stages have summed them: a reduction over both would sum them again.
TEST(SharedParametersTest, AreNotReducedOverThePipelineAsWell) {
  const ScheduleShape shape{kOneFOneB, 2, 4, 1};
  for (const std::vector<std::string>& axes :
       std::vector<std::vector<std::string>>{{}, {"pipe"}, {"data", "pipe"}}) {
    Parameter everywhere = kTied;
    everywhere.axes = axes;
    EXPECT_THAT(
        ErrorOf(WithShared(shape, 2, everywhere)),
        HasSubstr("pipeline.shared names tied, which is reduced over pipe as "
                  "well"));
  }
  // Both stages are on one rank, which adds their gradients itself.
  Parameter everywhere = kTied;
  everywhere.axes = {};
  EXPECT_TRUE(Compile(WithShared({kZbV, 2, 4, 2}, 1, everywhere, {1})).ok());
}

// Copies that are reduced differently do not stay equal.
TEST(SharedParametersTest, MustBeReducedAlike) {
  const ScheduleShape shape{kOneFOneB, 2, 4, 1};
  PlanInput input = WithShared(shape, 2, kTied);
  for (const int rank : {1, 3}) {
    input.registrations[rank].back().op = ReduceOp::kSum;
  }
  EXPECT_THAT(ErrorOf(input),
              HasSubstr("pipeline.shared names tied, which is [7,2] f32 mean "
                        "over data replicated over pipe on rank 0 and [7,2] "
                        "f32 sum"));
  input = WithShared(shape, 2, kTied);
  input.mesh.axes.push_back({"model", 2});
  input.registrations.insert(input.registrations.end(), 4, {});
  for (int rank = 0; rank < 8; ++rank) {
    input.registrations[rank] = {kTied};
    if (rank % 4 >= 2) input.registrations[rank][0].axes.push_back("model");
  }
  EXPECT_THAT(ErrorOf(input), HasSubstr("over data,model"));
}

TEST(SharedParametersTest, AreDifferentParametersWithoutAPipeline) {
  PlanInput input = WithShared({kOneFOneB, 2, 4, 1}, 2, kTied);
  for (std::vector<Parameter>& registered : input.registrations) {
    for (Parameter& parameter : registered) parameter.stage = -1;
  }
  input.pipeline.schedule = PipelineSchedule::kNone;
  EXPECT_EQ(CountedOf(*Compile(input), "tied"), 28);
}

// The last bucket of the shared parameter: rank 1 counts it as well.
TEST(SharedParametersTest, ThatBothEndsCountAreNotVerified) {
  Plan plan = *Compile(WithShared({kOneFOneB, 2, 4, 1}, 1, kTied));
  for (Parameter& parameter : plan.parameters) {
    parameter.replicated_over.clear();
  }
  EXPECT_EQ(Verify(plan), absl::OkStatus()) << "the sum makes them replicas";
  for (Transfer& transfer : plan.ranks[1].lanes[0].transfers) {
    const Slot& slot = plan.buckets[transfer.bucket].slots[0];
    if (plan.parameters[slot.parameter].name != "tied") continue;
    transfer.then.push_back(
        {.kind = LocalKind::kNorm, .offset = 0, .count = slot.count});
  }
  ASSERT_EQ(CountedOf(plan, "tied"), 28);
  EXPECT_THAT(std::string(Verify(plan).message()),
              HasSubstr("elements 0 to 14 of tied are counted in the norm more "
                        "than once"));
}

TEST(CompilePipelineTest, ARecutPlanKeepsItsPipeline) {
  PlanInput input = PipelineInput({kInterleaved, 2, 4, 2}, 2);
  const Plan first = *Compile(input);
  std::vector<uint32_t> order(first.parameters.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
  input.observed_order = order;
  input.revision = {2};
  const absl::StatusOr<Plan> recut = Recut(first, input.policy, order);
  ASSERT_TRUE(recut.ok()) << recut.status();
  EXPECT_EQ(*recut, *Compile(input));
  EXPECT_EQ(recut->communicators, first.communicators);
  EXPECT_EQ(Verify(*recut), absl::OkStatus());
}

TEST(CompilePipelineTest, PipelinesHaveDigestsOfTheirOwn) {
  const PlanInput input = PipelineInput({kOneFOneB, 2, 4, 1});
  const Plan plan = *Compile(input);
  EXPECT_EQ(DigestOf(plan), DigestOf(*Compile(input)));
  std::set<std::string> digests = {DigestOf(plan)};
  Plan other = plan;
  other.pipeline.axis = "p";
  EXPECT_TRUE(digests.insert(DigestOf(other)).second);
  other = plan;
  other.ranks[0].tasks[1].micro_batch = 7;
  EXPECT_TRUE(digests.insert(DigestOf(other)).second);
  other = plan;
  other.ranks[0].lanes[1].transfers[0].buffer = 7;
  EXPECT_TRUE(digests.insert(DigestOf(other)).second);
  other = plan;
  other.ranks[0].lanes[1].transfers[0].after_task = -1;
  EXPECT_TRUE(digests.insert(DigestOf(other)).second);
}

TEST(CompilePipelineTest, WhatDoesNotFitTheMeshIsRefused) {
  PlanInput input = PipelineInput({kOneFOneB, 2, 4, 1});
  input.pipeline.axis = "depth";
  EXPECT_THAT(ErrorOf(input), HasSubstr("depth is no axis of mesh"));
  input = PipelineInput({kOneFOneB, 4, 4, 1});
  input.pipeline.schedule = kInterleaved;
  EXPECT_THAT(ErrorOf(input), HasSubstr("at least 2 virtual stages"));
  input = PipelineInput({kOneFOneB, 4, 4, 1});
  input.pipeline.activations.resize(2);
  EXPECT_THAT(ErrorOf(input), HasSubstr("3 boundaries"));
  input = PipelineInput({kOneFOneB, 4, 4, 1});
  input.pipeline.micro_batches = 0;
  EXPECT_THAT(ErrorOf(input), HasSubstr("at least 1"));
  input = PipelineInput({kOneFOneB, 4, 4, 1}, 1, {{DType::kI32, {4}}});
  EXPECT_THAT(ErrorOf(input), HasSubstr("floating point"));
}

TEST(CompilePipelineTest, AThousandParametersOnSixtyFourWorkers) {
  PlanInput input = PipelineInput({kOneFOneB, 4, 8, 1}, 16);
  for (auto& rank : input.registrations) rank.clear();
  for (int p = 0; p < 1000; ++p) {
    for (int rank = 0; rank < 64; ++rank) {
      if (rank % 4 != p / 250) continue;
      input.registrations[rank].push_back({.name = absl::StrCat("p", p),
                                           .shape = {512, 512},
                                           .axes = {"data"}});
    }
  }
  const absl::StatusOr<Plan> plan = Compile(input);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(Verify(*plan), absl::OkStatus());
}

// With transfers of a quarter of a forward pass, in launch order, this is the
// cost limit: no send waits for a buffer, and no receive for a task that it
// does not need.
TEST(CompilePipelineTest, TransfersThatTakeTimeCostLittle) {
  const struct {
    ScheduleShape shape;
    double bubble;
  } cases[] = {{{kGPipe, 4, 16, 1}, 0.180},
               {{kOneFOneB, 4, 16, 1}, 0.257},
               {{kInterleaved, 4, 16, 2}, 0.116},
               {{kZbH1, 4, 16, 1}, 0.112},
               {{kZbV, 4, 16, 2}, 0.067}};
  for (const auto& [shape, bubble] : cases) {
    const Plan plan = *Compile(PipelineInput(shape));
    const auto timeline =
        TimelineOf(plan, {.stages = {{1000, 1000, 1000}}, .latency = 250});
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    EXPECT_LE(timeline->bubble, bubble) << testing::PrintToString(shape);
  }
}

}  // namespace
}  // namespace lockstep::plan
