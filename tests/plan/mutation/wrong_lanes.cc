#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tests/plan/mutation/draws.h"
#include "tests/plan/mutation/edit.h"
#include "tests/plan/mutation/wrong_kinds.h"

namespace lockstep::plan {
namespace {

class LaneMutator : public Draws {
 public:
  using Draws::Draws;

  void LaneThatNothingRuns() {
    switch (Draw(4)) {
      case 0: return SecondGradientLane();
      case 1: return NeedlessCollective(LaneKind::kGradient);
      case 2: return NeedlessCollective(LaneKind::kPipeline);
      default: return NeedlessMessage();
    }
  }

  void VerdictsCommunicator() {
    if (Draw(2) == 0) {
      const std::optional<Place> any = AnyMessage();
      if (!any) return;
      const std::optional<Place> other = OtherSide(plan_, *any);
      if (!other) return;
      At(plan_, *any).peer = other->rank;
      At(plan_, *other).peer = any->rank;
      At(plan_, *any).communicator = At(plan_, *other).communicator = 0;
      return;
    }
    if (plan_.buckets.empty()) return;
    const int bucket = Draw(plan_.buckets.size());
    const std::vector<int> group = BucketGroup(bucket);
    if (group != plan_.communicators[0].ranks) return;
    for (const int rank : group) {
      for (const TransferRef& ref : TransfersOf(rank, bucket)) {
        At(plan_, {rank, ref}).communicator = 0;
      }
    }
    if (Draw(2) == 0) plan_.buckets[bucket].communicator = 0;
  }

  void AnotherTypeOnBothSides() {
    const std::optional<Place> any = AnyMessage();
    const DType other = kTransportDTypes[Draw(std::size(kTransportDTypes))];
    if (any && Draw(2) == 0) {
      const std::optional<Place> to = OtherSide(plan_, *any);
      if (!to) return;
      if (Draw(2) == 0) {
        At(plan_, *any).dtype = At(plan_, *to).dtype = other;
      } else {
        At(plan_, *any).shape = At(plan_, *to).shape = {1, 2, 2};
      }
      return;
    }
    const std::optional<TwoOfBucket> of = AnyOfBucket();
    if (!of) return;
    const int how = Draw(3);
    for (const int rank : BucketGroup(of->bucket)) {
      Transfer& transfer =
          At(plan_, {rank, TransfersOf(rank, of->bucket)[of->first]});
      if (how == 0) transfer.dtype = other;
      if (how == 1) transfer.op = ReduceOp::kMax;
      if (how == 2) transfer.shape.back() += 1;
    }
  }

 private:
  // Moves the last bucket to a new lane, on all ranks of its group.
  void SecondGradientLane() {
    if (plan_.buckets.size() < 2) return;
    const int bucket = static_cast<int>(plan_.buckets.size()) - 1;
    for (const int rank : BucketGroup(bucket)) {
      RankPlan& of = plan_.ranks[rank];
      std::vector<TransferRef> refs = TransfersOf(rank, bucket);
      std::vector<Transfer> moved;
      for (const TransferRef& ref : refs)
        moved.push_back(At(plan_, {rank, ref}));
      std::sort(refs.rbegin(), refs.rend());
      for (const TransferRef& ref : refs) Remove(of, ref);
      const int lane = AddLane(of, LaneKind::kGradient, "second");
      for (Transfer& transfer : moved) Append(of, lane, std::move(transfer));
    }
  }

  void NeedlessCollective(LaneKind kind) {
    if (plan_.communicators.size() < 2) return;
    const int communicator = 1 + Draw(plan_.communicators.size() - 1);
    const int own = AddCommunicator(plan_, "needless",
                                    plan_.communicators[communicator].ranks);
    for (const int rank : plan_.communicators[own].ranks) {
      RankPlan& of = plan_.ranks[rank];
      const int lane =
          kind == LaneKind::kGradient ? 0 : AddLane(of, kind, "needless");
      Append(of, lane,
             {.kind = TransferKind::kAllReduce,
              .communicator = own,
              .shape = {4},
              .after_task = static_cast<int>(of.tasks.size()) - 1});
    }
  }

  void NeedlessMessage() {
    if (plan_.ranks.size() < 2) return;
    const int from = Draw(plan_.ranks.size());
    const int to = (from + 1 + Draw(plan_.ranks.size() - 1)) %
                   static_cast<int>(plan_.ranks.size());
    const int own = Between(from, to);
    for (const int rank : {from, to}) {
      RankPlan& of = plan_.ranks[rank];
      const int lane = AddLane(of, LaneKind::kPipeline, "needless");
      Append(of, lane,
             {.kind = rank == from ? TransferKind::kSend : TransferKind::kRecv,
              .communicator = own,
              .shape = {4},
              .peer = rank == from ? 1 : 0,
              .tag = 1000,
              .after_task = static_cast<int>(of.tasks.size()) - 1,
              .buffer = CountMessages(of)});
    }
  }
};

}  // namespace

const std::vector<Mutation>& WrongLanes() {
  static const auto* const all = new std::vector<Mutation>{
      {"lane that nothing runs",
       Apply<LaneMutator, &LaneMutator::LaneThatNothingRuns>},
      {"verdict's communicator",
       Apply<LaneMutator, &LaneMutator::VerdictsCommunicator>},
      {"another type on both sides",
       Apply<LaneMutator, &LaneMutator::AnotherTypeOnBothSides>}};
  return *all;
}

}  // namespace lockstep::plan
