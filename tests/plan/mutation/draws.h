// Random places in a plan, and facts about it, for mutations.

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_DRAWS_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_DRAWS_H_

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "plan/ir.h"
#include "tests/plan/mutation/edit.h"

namespace lockstep::plan {

class Draws {
 public:
  // The plan is a good one until the mutation changes it.
  Draws(Plan& plan, std::mt19937_64& random) : plan_(plan), random_(random) {
    if (HasPipeline()) columns_ = plan.mesh.GroupsOver({plan.pipeline.axis});
  }

 protected:
  struct TwoReplicas {
    Place from, to;              // of a message in one column
    Place other_from, other_to;  // of the same in another
  };

  struct TwoOfBucket {
    int bucket = 0;
    int first = 0;  // positions among its transfers on each rank
    int second = 0;
  };

  int Draw(size_t count) {
    return static_cast<int>(random_() % std::max<size_t>(count, 1));
  }
  RankPlan& AnyRank() { return plan_.ranks[Draw(plan_.ranks.size())]; }

  std::optional<std::pair<int, int>> AnyTask() {
    const int rank = Draw(plan_.ranks.size());
    const std::vector<Task>& tasks = plan_.ranks[rank].tasks;
    if (tasks.empty()) return std::nullopt;
    return std::pair(rank, Draw(tasks.size()));
  }

  std::optional<Place> AnyMessage() {
    std::vector<Place> messages;
    const int rank = Draw(plan_.ranks.size());
    for (const TransferRef& ref : plan_.ranks[rank].launch_order) {
      if (IsPointToPoint(At(plan_, {rank, ref}).kind)) {
        messages.push_back({rank, ref});
      }
    }
    if (messages.empty()) return std::nullopt;
    return messages[Draw(messages.size())];
  }

  std::optional<Place> AnyShared() {
    const int rank = Draw(plan_.ranks.size());
    const int lane = SharedLane(rank);
    if (lane < 0) return std::nullopt;
    return Place{rank,
                 {lane, Draw(plan_.ranks[rank].lanes[lane].transfers.size())}};
  }

  std::optional<TwoReplicas> AnyTwoReplicas() {
    if (columns_.size() < 2) return std::nullopt;
    const std::optional<Place> any = AnyMessage();
    if (!any || At(plan_, *any).kind != TransferKind::kSend) {
      return std::nullopt;
    }
    const std::optional<Place> to = OtherSide(plan_, *any);
    if (!to) return std::nullopt;
    const int column = ColumnNumber(any->rank);
    const int other = (column + 1 + Draw(columns_.size() - 1)) %
                      static_cast<int>(columns_.size());
    return TwoReplicas{*any,
                       *to,
                       {columns_[other][PlaceOf(any->rank)], any->ref},
                       {columns_[other][PlaceOf(to->rank)], to->ref}};
  }

  std::optional<TwoOfBucket> AnyOfBucket() {
    if (plan_.buckets.empty()) return std::nullopt;
    const int bucket = Draw(plan_.buckets.size());
    const size_t all = TransfersOf(BucketGroup(bucket)[0], bucket).size();
    return TwoOfBucket{bucket, Draw(all), Draw(all)};
  }

  // One rank, one column or all ranks.
  std::vector<int> SomeRanks() {
    const int rank = Draw(plan_.ranks.size());
    switch (Draw(3)) {
      case 0: return {rank};
      case 1: return ColumnOf(rank);
      default: return plan_.communicators[0].ranks;
    }
  }

  bool HasPipeline() const {
    return plan_.pipeline.schedule != PipelineSchedule::kNone;
  }
  int Stages() const {
    return static_cast<int>(columns_[0].size()) * plan_.pipeline.virtual_stages;
  }
  int ColumnNumber(int rank) const {
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (std::count(columns_[i].begin(), columns_[i].end(), rank) > 0) {
        return static_cast<int>(i);
      }
    }
    return 0;
  }
  std::vector<int> ColumnOf(int rank) const {
    return columns_[ColumnNumber(rank)];
  }
  int PlaceOf(int rank) const {
    const std::vector<int>& column = columns_[ColumnNumber(rank)];
    return static_cast<int>(std::find(column.begin(), column.end(), rank) -
                            column.begin());
  }
  std::vector<int> SamePlace(int rank) const {
    std::vector<int> ranks;
    const int place = PlaceOf(rank);
    for (const std::vector<int>& column : columns_) {
      ranks.push_back(column[place]);
    }
    return ranks;
  }

  // -1 if the rank has none.
  int SharedLane(int rank) const {
    const std::vector<Lane>& lanes = plan_.ranks[rank].lanes;
    for (size_t i = 0; i < lanes.size(); ++i) {
      if (lanes[i].name == "shared") return static_cast<int>(i);
    }
    return -1;
  }

  const std::vector<int>& BucketGroup(int bucket) const {
    return plan_.communicators[plan_.buckets[bucket].communicator].ranks;
  }

  std::vector<TransferRef> TransfersOf(int rank, int bucket) {
    std::vector<TransferRef> refs;
    for (const TransferRef& ref : plan_.ranks[rank].launch_order) {
      if (At(plan_, {rank, ref}).bucket == bucket) refs.push_back(ref);
    }
    return refs;
  }

  int Between(int from, int to) {
    return AddCommunicator(plan_, absl::StrCat("across@", from, ">", to),
                           {from, to});
  }

  static void MoveEarlier(Transfer& transfer, int earlier) {
    transfer.after_task = std::max(transfer.after_task - earlier, -1);
  }

  Plan& plan_;
  std::mt19937_64& random_;
  std::vector<std::vector<int>> columns_;  // ranks of each replica
};

// Mutation::apply for a member of a class that is derived from Draws.
template <typename Mutator, void (Mutator::*mutate)()>
void Apply(Plan& plan, std::mt19937_64& random) {
  (Mutator(plan, random).*mutate)();
}

}  // namespace lockstep::plan

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_DRAWS_H_
