// The verifier's findings on tasks, buffers and values of a pipeline that
// differ from its spec.

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "plan/compile.h"
#include "plan/verify/verify.h"
#include "tests/plan/pipeline/pipelines.h"
#include "tests/plan/verify/builder.h"

namespace lockstep::plan {
namespace {

using testing::HasSubstr;
using enum PipelineSchedule;

// Rank 0: F0 F1 B0 F2 B1 F3 B2 B3, rank 1: F0 B0 F1 B1 F2 B2 F3 B3. Lanes:
// gradient, to rank 1, from rank 1 (and vice versa).
Plan TwoStages() { return *Compile(PipelineInput({kOneFOneB, 2, 4, 1})); }

int LaneIndex(const RankPlan& rank, const std::string& name) {
  for (size_t i = 0; i < rank.lanes.size(); ++i) {
    if (rank.lanes[i].name == name) return static_cast<int>(i);
  }
  ADD_FAILURE() << "no lane " << name;
  return 0;
}

std::vector<Transfer>& Sends(Plan& plan) {
  RankPlan& rank = plan.ranks[0];
  return rank.lanes[LaneIndex(rank, "to rank 1")].transfers;
}
std::vector<Transfer>& Receives(Plan& plan) {
  RankPlan& rank = plan.ranks[1];
  return rank.lanes[LaneIndex(rank, "from rank 0")].transfers;
}

void ExpectRefused(Plan plan, const std::function<void(Plan&)>& damage,
                   const std::string& why) {
  ASSERT_EQ(Verify(plan), absl::OkStatus());
  damage(plan);
  const absl::Status status = Verify(plan);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
}
void ExpectRefused(const std::function<void(Plan&)>& damage,
                   const std::string& why) {
  ExpectRefused(TwoStages(), damage, why);
}

// Gives every message of a rank a buffer of its own.
void PartBuffers(Plan& plan) {
  for (RankPlan& rank : plan.ranks) {
    int next = 0;
    for (Lane& lane : rank.lanes) {
      if (lane.kind != LaneKind::kPipeline) continue;
      for (Transfer& transfer : lane.transfers) transfer.buffer = next++;
    }
  }
}

// Two replicas (ranks 0, 1 and 2, 3) of two stages.
Plan TwoReplicas() { return *Compile(PipelineInput({kOneFOneB, 2, 4, 1}, 2)); }

// A rank has stages 0 and 2, or 1 and 3.
Plan ThereAndBack() { return *Compile(PipelineInput({kZbV, 2, 2, 2})); }

// Three replicas of three stages; the first and the last share `e`, and also
// `f`, which has the same shape.
Plan WithShared() {
  PlanInput input = PipelineInput({kOneFOneB, 3, 3, 1}, 3);
  for (int rank = 0; rank < 9; ++rank) {
    if (rank % 3 == 1) continue;
    for (const char* name : {"e", "f"}) {
      input.registrations[rank].push_back(
          {.name = name, .shape = {6}, .axes = {"data"}});
    }
  }
  input.pipeline.shared = {"e", "f"};
  return *Compile(input);
}

std::vector<Transfer>& SharedSums(RankPlan& rank) {
  return rank.lanes[LaneIndex(rank, "shared")].transfers;
}

// Removes a task and renumbers the references to later ones. It must be the
// last task of its kind.
void TakeOut(RankPlan& rank, int task) {
  rank.tasks.erase(rank.tasks.begin() + task);
  for (Lane& lane : rank.lanes) {
    for (Transfer& transfer : lane.transfers) {
      if (transfer.after_task >= task) --transfer.after_task;
    }
  }
}

TEST(PipelineCheckTest, ATaskThatComesTwiceIsRefused) {
  ExpectRefused(
      [](Plan& plan) { plan.ranks[0].tasks[1] = plan.ranks[0].tasks[0]; },
      "a second time");
}

TEST(PipelineCheckTest, ABackwardPassBeforeItsForwardIsRefused) {
  ExpectRefused(
      [](Plan& plan) {
        std::swap(plan.ranks[1].tasks[0], plan.ranks[1].tasks[1]);
      },
      "before what it is computed from");
}

TEST(PipelineCheckTest, TasksOfNoKindOrPlaceAreRefused) {
  ExpectRefused(
      [](Plan& plan) { plan.ranks[0].tasks[0].work = static_cast<Work>(9); },
      "of no kind");
  ExpectRefused([](Plan& plan) { plan.ranks[0].tasks[0].stage = -1; },
                "of no kind");
  ExpectRefused(
      [](Plan& plan) {
        plan.ranks[0].tasks[0].after = {{7, 0}};
      },
      "does not exist");
  ExpectRefused([](Plan& plan) { Sends(plan)[0].after_task = 99; },
                "task 99 of 8");
  ExpectRefused([](Plan& plan) { Sends(plan)[0].after_task = -2; },
                "task -2 of 8");
}

TEST(PipelineCheckTest, ABufferThatIsStillHeldIsRefused) {
  ExpectRefused(
      [](Plan& plan) { Sends(plan)[1].buffer = Sends(plan)[0].buffer; },
      "may still hold");
  ExpectRefused(
      [](Plan& plan) { Receives(plan)[1].buffer = Receives(plan)[0].buffer; },
      "may still hold");
  ExpectRefused([](Plan& plan) { Receives(plan)[3].after_task = -1; },
                "may still hold");
  ExpectRefused([](Plan& plan) { plan.ranks[0].tasks[3].after.clear(); },
                "may still hold");
}

TEST(PipelineCheckTest, ABufferThatNoTaskFillsIsRefused) {
  ExpectRefused([](Plan& plan) { Sends(plan)[0].after_task = -1; },
                "no task fills");
  ExpectRefused([](Plan& plan) { Sends(plan)[0].buffer = -2; },
                "no task fills");
  ExpectRefused([](Plan& plan) { plan.ranks[1].tasks[0].after.clear(); },
                "no task fills");
}

TEST(PipelineCheckTest, AResultThatGoesToAnotherMicroBatchIsRefused) {
  // The same tags, types and order of messages, but another result in them.
  ExpectRefused(
      [](Plan& plan) {
        std::swap(Sends(plan)[0].after_task, Sends(plan)[1].after_task);
        PartBuffers(plan);
      },
      "brings the forward of stage 0, micro-batch 1");
}

TEST(PipelineCheckTest, ATaskWithoutWhatItNeedsIsRefused) {
  ExpectRefused(
      [](Plan& plan) {
        PartBuffers(plan);
        std::vector<Task>& tasks = plan.ranks[1].tasks;
        tasks[2].after.push_back(tasks[0].after[0]);
        tasks[0].after.clear();
      },
      "which no transfer brings");
}

TEST(PipelineCheckTest, AMessageThatNoTaskWaitsForIsRefused) {
  ExpectRefused([](Plan& plan) { plan.ranks[1].tasks[0].after.clear(); },
                "no task fills or empties");
}

TEST(PipelineCheckTest, ATaskBeforeTheLocalOneThatFeedsItIsRefused) {
  // zb-v, rank 1: stage 2's forward needs stage 1's, which is its neighbour.
  ExpectRefused(
      ThereAndBack(),
      [](Plan& plan) {
        std::vector<Task>& tasks = plan.ranks[1].tasks;
        ASSERT_EQ(Describe(tasks[0]), "forward of stage 1, micro-batch 0");
        ASSERT_EQ(Describe(tasks[1]), "forward of stage 2, micro-batch 0");
        std::swap(tasks[0], tasks[1]);
      },
      "task 0 (forward of stage 2, micro-batch 0) comes before what it is "
      "computed from");
}

TEST(PipelineCheckTest, AnActivationOfAnotherReplicaIsRefused) {
  // Each replica's first stage sends to the other's second stage, of equal
  // type.
  ExpectRefused(
      TwoReplicas(),
      [](Plan& plan) {
        const auto receives = [&plan](int rank) -> std::vector<Transfer>& {
          RankPlan& of_rank = plan.ranks[rank];
          return of_rank
              .lanes[LaneIndex(of_rank, absl::StrCat("from rank ", rank - 1))]
              .transfers;
        };
        std::swap(receives(1), receives(3));
        for (const auto& [a, b] : {std::pair(1, 3), std::pair(3, 1)}) {
          plan.communicators[receives(a)[0].communicator].ranks = {b - 1, a};
        }
      },
      "in its replica rank");
}

TEST(PipelineCheckTest, AMicroBatchThatIsMissingIsRefused) {
  ExpectRefused(
      [](Plan& plan) {
        for (RankPlan& rank : plan.ranks) {
          std::erase_if(rank.tasks,
                        [](const Task& task) { return task.micro_batch == 3; });
        }
      },
      "has no forward of stage 0, micro-batch 3");
}

TEST(PipelineCheckTest, AWeightPassThatIsMissingIsRefused) {
  ExpectRefused(
      *Compile(PipelineInput({kZbH1, 2, 2, 1})),
      [](Plan& plan) {
        std::vector<Task>& tasks = plan.ranks[1].tasks;
        int last = static_cast<int>(tasks.size()) - 1;
        while (tasks[last].work != Work::kBackwardWeight) --last;
        TakeOut(plan.ranks[1], last);
      },
      "has no weight gradient of stage 1, micro-batch 1");
}

TEST(PipelineCheckTest, TasksThatTheSpecHasNotAreRefused) {
  ExpectRefused(
      [](Plan& plan) {
        plan.ranks[0].tasks.push_back({Work::kForward, 0, 4, {}});
      },
      "task 8 (forward of stage 0, micro-batch 4): the pipeline has 2 stages "
      "and 4 micro-batches");
  ExpectRefused(
      [](Plan& plan) {
        plan.ranks[0].tasks.push_back({Work::kForward, 2, 0, {}});
      },
      "the pipeline has 2 stages");
  ExpectRefused(
      [](Plan& plan) {
        plan.ranks[0].tasks.push_back({Work::kForward, 1, 0, {}});
      },
      "rank 1 has the stage");
}

TEST(PipelineCheckTest, TasksWithoutAPipelineAreRefused) {
  PlanInput input{.mesh = {{{"data", 2}}}};
  input.registrations.assign(2, {{.name = "w", .shape = {4}}});
  ExpectRefused(
      *Compile(input),
      [](Plan& plan) {
        for (RankPlan& rank : plan.ranks) {
          rank.tasks.push_back({Work::kForward, 0, 0, {}});
        }
      },
      "task 0 (forward of stage 0, micro-batch 0): the plan has no pipeline");
}

TEST(PipelineCheckTest, ABufferThatIsAbsentOrOutOfRangeIsRefused) {
  ExpectRefused([](Plan& plan) { Sends(plan)[2].buffer = -1; },
                "transfer 2 of lane to rank 1 has no buffer");
  ExpectRefused([](Plan& plan) { Receives(plan)[3].buffer = 1'000'000; },
                "has buffer 1000000, of the rank's 8 messages");
}

TEST(PipelineCheckTest, PartsOfAMessageThatChangePlacesAreRefused) {
  // Equal types: only the tags distinguish them.
  const auto plan = Compile(PipelineInput(
      {kOneFOneB, 2, 2, 1}, 1, {{DType::kF32, {4}}, {DType::kI32, {2}}}));
  ExpectRefused(
      *plan,
      [](Plan& plan) {
        std::swap(Sends(plan)[0].tag, Sends(plan)[1].tag);
        std::swap(Receives(plan)[0].tag, Receives(plan)[1].tag);
      },
      "needs f32[4] with tag 0 + i32[2] with tag 1, but is brought i32[2] with "
      "tag 0 + f32[4] with tag 1");
}

TEST(PipelineCheckTest, ASumOfSharedParametersThatIsMissingIsRefused) {
  ExpectRefused(
      WithShared(),
      [](Plan& plan) {
        for (const int rank : {3, 5}) {
          RankPlan& of_rank = plan.ranks[rank];
          const int lane = LaneIndex(of_rank, "shared");
          of_rank.lanes[lane].transfers.pop_back();
          std::erase(of_rank.launch_order, TransferRef{lane, 1});
          for (Transfer& transfer : of_rank.lanes[0].transfers) {
            std::erase(transfer.after, TransferRef{lane, 1});
          }
        }
      },
      "rank 3: has no sum of the gradients of f, which it shares with rank 5");
}

TEST(PipelineCheckTest, ASumOfSharedParametersAfterItsBucketIsRefused) {
  ExpectRefused(
      WithShared(),
      [](Plan& plan) {
        for (Transfer& transfer : plan.ranks[8].lanes[0].transfers) {
          transfer.after.clear();
        }
      },
      "does not come after the sum of the gradients of e");
  ExpectRefused(
      WithShared(),
      [](Plan& plan) { SharedSums(plan.ranks[6])[0].after_task = 0; },
      "the sum of the gradients of e comes before task");
}

TEST(PipelineCheckTest, ASumOfSharedParametersOfAnotherReplicaIsRefused) {
  ExpectRefused(
      WithShared(),
      [](Plan& plan) {
        for (CommunicatorSpec& communicator : plan.communicators) {
          if (communicator.name == "pipe@0+2") communicator.ranks = {0, 5};
          if (communicator.name == "pipe@3+5") communicator.ranks = {3, 2};
        }
        std::swap(SharedSums(plan.ranks[2]), SharedSums(plan.ranks[5]));
      },
      "is not the sum of the gradients of e with rank 2");
}

TEST(PipelineCheckTest, ACollectiveThatThePipelineDoesNotNeedIsRefused) {
  ExpectRefused(
      WithShared(),
      [](Plan& plan) {
        for (const int rank : {0, 2}) {
          RankPlan& of_rank = plan.ranks[rank];
          const int lane = LaneIndex(of_rank, "shared");
          of_rank.lanes[lane].transfers.push_back(SharedSums(of_rank)[0]);
          Launch(of_rank, {lane, 2});
        }
      },
      "is a collective that the pipeline does not need");
}

TEST(PipelineCheckTest, ASpecThatDoesNotFitTheMeshIsRefused) {
  ExpectRefused([](Plan& plan) { plan.pipeline.axis = "depth"; },
                "pipeline.axis");
}

TEST(PipelineCheckTest, ATransferTakenOutIsMissedByName) {
  ExpectRefused([](Plan& plan) { Sends(plan).pop_back(); },
                "from rank 0 to rank 1: sent by nothing, received by transfer "
                "3 of lane from rank 0");
}

TEST(PipelineCheckTest, ACircleThroughTasksIsTold) {
  Plan plan = TwoStages();
  // The first forward pass waits for a message that is sent after the second.
  plan.ranks[0].tasks[0].after = {{LaneIndex(plan.ranks[0], "to rank 1"), 1}};
  const absl::Status status = Verify(plan);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(
                  HasSubstr("rank 0 task 0 (forward of stage 0, micro-batch 0)"
                            " comes after rank 0 transfer 1 of lane to rank 1"),
                  HasSubstr("even if every lane runs by itself")));
}

}  // namespace
}  // namespace lockstep::plan
