#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tests/plan/mutation/draws.h"
#include "tests/plan/mutation/edit.h"
#include "tests/plan/mutation/wrong_kinds.h"

namespace lockstep::plan {
namespace {

bool IsGradient(Work work) {
  return work == Work::kBackward || work == Work::kBackwardInput;
}

class TaskMutator : public Draws {
 public:
  using Draws::Draws;

  void TaskBeforeItsFeeder() {
    RankPlan& rank = AnyRank();
    if (rank.tasks.empty()) return;
    const int fed = Draw(rank.tasks.size());
    std::vector<int> feeders;
    for (int i = 0; i < fed; ++i) {
      if (Feeds(rank.tasks[i], rank.tasks[fed])) feeders.push_back(i);
    }
    if (feeders.empty()) return;
    MoveTask(rank, fed, feeders[Draw(feeders.size())]);
  }

  void MicroBatchDropped() {
    if (!HasPipeline()) return;
    const int gone = Draw(plan_.pipeline.micro_batches);
    const bool both_sides = Draw(2) == 0;
    for (const int rank : SomeRanks()) {
      DropTasks(rank, both_sides,
                [&](const Task& task) { return task.micro_batch == gone; });
    }
  }

  void PassDropped() {
    const std::optional<std::pair<int, int>> any = AnyTask();
    if (!any) return;
    const Task gone = plan_.ranks[any->first].tasks[any->second];
    if (gone.work == Work::kBackwardWeight) return;
    const bool everywhere = Draw(2) == 0;
    for (const int rank : SamePlace(any->first)) {
      if (!everywhere && rank != any->first) continue;
      DropTasks(rank, true, [&](const Task& task) {
        return task.work == gone.work && task.stage == gone.stage &&
               task.micro_batch == gone.micro_batch;
      });
    }
  }

  void PassComputedTwice() {
    const std::optional<std::pair<int, int>> any = AnyTask();
    if (!any) return;
    const bool everywhere = Draw(2) == 0;
    for (const int rank : SamePlace(any->first)) {
      if (!everywhere && rank != any->first) continue;
      std::vector<Task>& tasks = plan_.ranks[rank].tasks;
      const Task& again = tasks[any->second];
      tasks.push_back({.work = again.work,
                       .stage = again.stage,
                       .micro_batch = again.micro_batch});
    }
  }

  void WeightPassDropped() {
    const std::optional<std::pair<int, int>> any = AnyTask();
    if (!any) return;
    const Task gone = plan_.ranks[any->first].tasks[any->second];
    if (gone.work != Work::kBackward && gone.work != Work::kBackwardWeight) {
      return;
    }
    const bool everywhere = Draw(2) == 0;
    for (const int rank : SamePlace(any->first)) {
      if (!everywhere && rank != any->first) continue;
      if (gone.work == Work::kBackward) {
        plan_.ranks[rank].tasks[any->second].work = Work::kBackwardInput;
      } else {
        RemoveTask(plan_.ranks[rank], any->second);
      }
    }
  }

  void MicroBatchBeyondM() {
    const std::optional<std::pair<int, int>> any = AnyTask();
    if (!any) return;
    Task& one = plan_.ranks[any->first].tasks[any->second];
    const int old = one.micro_batch;
    const int beyond = plan_.pipeline.micro_batches + Draw(3);
    if (Draw(3) == 0) {
      one.micro_batch = beyond;
      return;
    }
    for (const int rank : SomeRanks()) {
      for (Task& task : plan_.ranks[rank].tasks) {
        if (task.micro_batch == old) task.micro_batch = beyond;
      }
    }
  }

  void StageOnAnotherRank() {
    const std::optional<std::pair<int, int>> any = AnyTask();
    if (!any) return;
    RankPlan& rank = plan_.ranks[any->first];
    const int a = rank.tasks[any->second].stage;
    const int b = Draw(static_cast<size_t>(Stages()));
    switch (Draw(4)) {
      case 0: rank.tasks[any->second].stage = b; return;
      case 1: {  // the task moves
        const Task moved = rank.tasks[any->second];
        RemoveTask(rank, any->second);
        RankPlan& other = AnyRank();
        other.tasks.insert(other.tasks.begin() + Draw(other.tasks.size() + 1),
                           {.work = moved.work,
                            .stage = moved.stage,
                            .micro_batch = moved.micro_batch});
        return;
      }
      default:
        for (const int of : SomeRanks()) {
          for (Task& task : plan_.ranks[of].tasks) {
            task.stage = task.stage == a ? b : task.stage == b ? a : task.stage;
          }
        }
    }
  }

  void TasksWithoutPipeline() {
    if (HasPipeline()) return;
    const bool all = Draw(2) == 0;
    const int first = Draw(plan_.ranks.size());
    const Work works[] = {Work::kForward, Work::kBackward};
    const int count = 1 + Draw(2);
    const bool before_buckets = Draw(2) == 0;
    for (size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      if (!all && static_cast<int>(rank) != first) continue;
      for (int i = 0; i < count; ++i) {
        plan_.ranks[rank].tasks.push_back(
            {.work = works[i], .stage = 0, .micro_batch = 0});
      }
      if (!before_buckets) continue;
      for (Lane& lane : plan_.ranks[rank].lanes) {
        for (Transfer& transfer : lane.transfers) {
          transfer.after_task = count - 1;
        }
      }
    }
  }

 private:
  static bool Feeds(const Task& feeder, const Task& fed) {
    if (feeder.micro_batch != fed.micro_batch) return false;
    if (feeder.stage == fed.stage) return feeder.work < fed.work;
    if (fed.work == Work::kForward) {
      return feeder.work == Work::kForward && feeder.stage == fed.stage - 1;
    }
    return IsGradient(fed.work) && IsGradient(feeder.work) &&
           feeder.stage == fed.stage + 1;
  }

  template <typename Which>
  void DropTasks(int rank, bool both_sides, const Which& which) {
    for (int i = static_cast<int>(plan_.ranks[rank].tasks.size()) - 1; i >= 0;
         --i) {
      if (!which(plan_.ranks[rank].tasks[i])) continue;
      RemoveMessages(plan_, MessagesOf(plan_, rank, i), both_sides);
      RemoveTask(plan_.ranks[rank], i);
    }
  }
};

}  // namespace

const std::vector<Mutation>& WrongTasks() {
  static const auto* const all = new std::vector<Mutation>{
      {"task before its feeder",
       Apply<TaskMutator, &TaskMutator::TaskBeforeItsFeeder>},
      {"micro-batch dropped",
       Apply<TaskMutator, &TaskMutator::MicroBatchDropped>},
      {"pass dropped", Apply<TaskMutator, &TaskMutator::PassDropped>},
      {"weight pass dropped",
       Apply<TaskMutator, &TaskMutator::WeightPassDropped>},
      {"micro-batch beyond M",
       Apply<TaskMutator, &TaskMutator::MicroBatchBeyondM>},
      {"stage on another rank",
       Apply<TaskMutator, &TaskMutator::StageOnAnotherRank>},
      {kTasksWithoutPipeline,
       Apply<TaskMutator, &TaskMutator::TasksWithoutPipeline>},
      {"pass computed twice",
       Apply<TaskMutator, &TaskMutator::PassComputedTwice>}};
  return *all;
}

}  // namespace lockstep::plan
