#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tests/plan/mutation/draws.h"
#include "tests/plan/mutation/edit.h"
#include "tests/plan/mutation/wrong_kinds.h"

namespace lockstep::plan {
namespace {

class GradientMutator : public Draws {
 public:
  using Draws::Draws;

  void SharedSumDropped() {
    const std::optional<Place> any = AnyShared();
    if (!any) return;
    const bool everywhere = Draw(2) == 0;
    const std::vector<int> column = ColumnOf(any->rank);
    for (size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      const int of = static_cast<int>(rank);
      if (!everywhere && std::count(column.begin(), column.end(), of) == 0) {
        continue;
      }
      const int lane = SharedLane(of);
      if (lane >= 0) Remove(plan_.ranks[rank], {lane, any->ref.index});
    }
  }

  void SharedSumAfterItsBucket() {
    const std::optional<Place> any = AnyShared();
    if (!any) return;
    const bool everywhere = Draw(2) == 0;
    const bool launches_later = Draw(2) == 0;
    for (size_t r = 0; r < plan_.ranks.size(); ++r) {
      const int lane = SharedLane(static_cast<int>(r));
      if (lane < 0 || (!everywhere && static_cast<int>(r) != any->rank)) {
        continue;
      }
      const TransferRef sum{lane, any->ref.index};
      RankPlan& rank = plan_.ranks[r];
      for (Lane& of : rank.lanes) {
        for (Transfer& transfer : of.transfers) std::erase(transfer.after, sum);
      }
      // The whole lane moves to the end and keeps its order.
      if (!launches_later) continue;
      std::stable_partition(
          rank.launch_order.begin(), rank.launch_order.end(),
          [&](const TransferRef& ref) { return ref.lane != lane; });
    }
  }

  void SharedSumEarlier() {
    const std::optional<Place> any = AnyShared();
    if (!any) return;
    const int earlier = 1 + Draw(4);
    const bool everywhere = Draw(2) == 0;
    for (size_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      const int lane = SharedLane(static_cast<int>(rank));
      if (lane < 0 || (!everywhere && static_cast<int>(rank) != any->rank)) {
        continue;
      }
      MoveEarlier(plan_.ranks[rank].lanes[lane].transfers[any->ref.index],
                  earlier);
    }
  }

  void ReductionEarlier() {
    if (!HasPipeline() || plan_.buckets.empty()) return;
    const int bucket = Draw(plan_.buckets.size());
    const std::vector<int>& group = BucketGroup(bucket);
    const bool everywhere = Draw(2) == 0;
    const int only = group[Draw(group.size())];
    const int earlier = 1 + Draw(4);
    for (const int rank : group) {
      if (!everywhere && rank != only) continue;
      for (const TransferRef& ref : TransfersOf(rank, bucket)) {
        Transfer& transfer = At(plan_, {rank, ref});
        if (transfer.after_task >= 0) MoveEarlier(transfer, earlier);
      }
    }
  }

  void BucketTransferDropped() {
    const std::optional<TwoOfBucket> any = AnyOfBucket();
    if (!any) return;
    for (const int rank : BucketGroup(any->bucket)) {
      Remove(plan_.ranks[rank], TransfersOf(rank, any->bucket)[any->first]);
    }
  }

  void BucketTransferRepeated() {
    const std::optional<TwoOfBucket> any = AnyOfBucket();
    if (!any) return;
    for (const int rank : BucketGroup(any->bucket)) {
      const TransferRef ref = TransfersOf(rank, any->bucket)[any->first];
      InsertBehind(plan_.ranks[rank], ref, At(plan_, {rank, ref}));
    }
  }

  void BucketTransfersReordered() {
    const std::optional<TwoOfBucket> any = AnyOfBucket();
    if (!any || any->first == any->second) return;
    const bool in_one_group = Draw(3) == 0;
    for (const int rank : BucketGroup(any->bucket)) {
      const std::vector<TransferRef> refs = TransfersOf(rank, any->bucket);
      Transfer& a = At(plan_, {rank, refs[any->first]});
      Transfer& b = At(plan_, {rank, refs[any->second]});
      if (in_one_group) {
        a.group = b.group = any->bucket + 1;
      } else {
        std::swap(a, b);
      }
    }
  }

  void ParametersGatheredLate() {
    const std::optional<TwoOfBucket> any = AnyOfBucket();
    if (!any || !HasPipeline() || !plan_.buckets[any->bucket].sharded) return;
    const bool everywhere = Draw(2) == 0;
    const std::vector<int> group = BucketGroup(any->bucket);
    const int only = group[Draw(group.size())];
    for (const int rank : group) {
      if (!everywhere && rank != only) continue;
      At(plan_, {rank, TransfersOf(rank, any->bucket)[0]}).after_task =
          Draw(plan_.ranks[rank].tasks.size());
    }
  }
};

}  // namespace

const std::vector<Mutation>& WrongGradients() {
  static const auto* const all = new std::vector<Mutation>{
      {"shared sum dropped",
       Apply<GradientMutator, &GradientMutator::SharedSumDropped>},
      {"shared sum after its bucket",
       Apply<GradientMutator, &GradientMutator::SharedSumAfterItsBucket>},
      {"shared sum earlier",
       Apply<GradientMutator, &GradientMutator::SharedSumEarlier>},
      {"reduction earlier",
       Apply<GradientMutator, &GradientMutator::ReductionEarlier>},
      {"bucket transfer dropped",
       Apply<GradientMutator, &GradientMutator::BucketTransferDropped>},
      {"bucket transfer repeated",
       Apply<GradientMutator, &GradientMutator::BucketTransferRepeated>},
      {"bucket transfers reordered",
       Apply<GradientMutator, &GradientMutator::BucketTransfersReordered>},
      {"parameters gathered late",
       Apply<GradientMutator, &GradientMutator::ParametersGatheredLate>}};
  return *all;
}

}  // namespace lockstep::plan
