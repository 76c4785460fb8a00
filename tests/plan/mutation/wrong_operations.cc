#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "plan/bucket_transfers.h"
#include "plan/norm_ranges.h"
#include "tests/plan/mutation/draws.h"
#include "tests/plan/mutation/edit.h"
#include "tests/plan/mutation/wrong_kinds.h"

namespace lockstep::plan {
namespace {

class OperationMutator : public Draws {
 public:
  using Draws::Draws;

  void Dropped() {
    Edit([](std::vector<LocalOp>& ops, size_t at) {
      ops.erase(ops.begin() + at);
    });
  }

  void Doubled() {
    Edit([](std::vector<LocalOp>& ops, size_t at) {
      const LocalOp copy = ops[at];
      ops.insert(ops.begin() + at, copy);
    });
  }

  void OutOfOrder() {
    const size_t by = 1 + Draw(2);
    Edit([by](std::vector<LocalOp>& ops, size_t at) {
      std::swap(ops[at], ops[(at + by) % ops.size()]);
    });
  }

  void OfAnotherType() {
    const DType dtype = kTransportDTypes[Draw(std::size(kTransportDTypes))];
    const bool source = Draw(2) == 0;
    Edit([=](std::vector<LocalOp>& ops, size_t at) {
      (source ? ops[at].from : ops[at].to) = dtype;
    });
  }

  void OfOtherElements() {
    const int64_t by = (1 + Draw(2)) * 8;
    const int how = Draw(4);
    Edit([=](std::vector<LocalOp>& ops, size_t at) {
      LocalOp& op = ops[at];
      if (how == 0) op.offset += by;
      if (how == 1) op.offset -= by;
      if (how == 2) op.count += by;
      if (how == 3) op.count -= by;
    });
  }

  void WithAnotherDivisor() {
    const int divisor = 1 + Draw(4);
    const bool of_transfer = Draw(3) == 0;
    const std::optional<Place> any = AnyWithOps();
    if (!any) return;
    Transfer& transfer = At(plan_, *any);
    if (of_transfer) {
      transfer.divisor = divisor;
    } else {
      std::vector<LocalOp>& ops = SideOf(transfer, Draw(2) == 0);
      ops[Draw(ops.size())].divisor = divisor;
    }
  }

  void OnTheWrongSide() {
    const std::optional<Place> any = AnyWithOps();
    if (!any) return;
    Transfer& transfer = At(plan_, *any);
    std::vector<LocalOp>& from = SideOf(transfer, Draw(2) == 0);
    std::vector<LocalOp>& to =
        &from == &transfer.before ? transfer.then : transfer.before;
    const size_t at = Draw(from.size());
    to.insert(to.begin() + Draw(to.size() + 1), from[at]);
    from.erase(from.begin() + at);
  }

  void OnAnotherTransfer() {
    const std::optional<Place> any = AnyWithOps();
    if (!any) return;
    RankPlan& rank = plan_.ranks[any->rank];
    const TransferRef to = rank.launch_order[Draw(rank.launch_order.size())];
    if (to == any->ref) return;
    const bool before = Draw(2) == 0;
    std::vector<LocalOp>& from = SideOf(At(plan_, *any), before);
    Transfer& other = At(plan_, {any->rank, to});
    const size_t at = Draw(from.size());
    (Draw(2) == 0 ? other.before : other.then).push_back(from[at]);
    if (Draw(2) == 0) from.erase(from.begin() + at);
  }

  // Elements that no rank counts, or two do.
  void NormOfOtherElements() {
    std::vector<LocalOp*> norms = Norms();
    if (norms.empty()) return;
    LocalOp& norm = *norms[Draw(norms.size())];
    const LocalOp& other = *norms[Draw(norms.size())];
    const int64_t cut = Draw(static_cast<size_t>(norm.count));
    switch (Draw(4)) {
      case 0: norm.count -= std::max<int64_t>(cut, 1); break;
      case 1:
        norm.offset += std::max<int64_t>(cut, 1);
        norm.count -= std::max<int64_t>(cut, 1);
        break;
      case 2: norm.offset = std::max<int64_t>(norm.offset - 16, 0); break;
      default: norm.offset = other.offset; norm.count = other.count;
    }
  }

  void NormForAnotherLeaf() {
    std::vector<LocalOp*> norms = Norms();
    if (norms.empty()) return;
    LocalOp& norm = *norms[Draw(norms.size())];
    norm.leaf = Draw(6) - 1;
  }

  // As if the stages' copies were parameters of their own.
  void SharedCountedAtBothEnds() {
    bool is_shared = false;
    for (Parameter& parameter : plan_.parameters) {
      for (const std::string& name : plan_.pipeline.shared) {
        if (parameter.name != name) continue;
        is_shared = true;
        parameter.replicated_over.clear();
      }
    }
    if (!is_shared) return;
    for (size_t b = 0; b < plan_.buckets.size(); ++b) {
      for (const int rank : BucketGroup(static_cast<int>(b))) {
        CountAgain(rank, static_cast<int>(b));
      }
    }
  }

  // Only some ranks of a bucket's group: the others exchange.
  void SomeInPairs() {
    std::vector<int> with_leaves;
    for (size_t b = 0; b < plan_.buckets.size(); ++b) {
      if (plan_.buckets[b].leaves > 0) {
        with_leaves.push_back(static_cast<int>(b));
      }
    }
    if (with_leaves.empty()) return;
    const int bucket = with_leaves[Draw(with_leaves.size())];
    const std::vector<int> group = BucketGroup(bucket);
    const int position = Draw(group.size());
    RankPlan& rank = plan_.ranks[group[position]];
    TransferRef at = TransfersOf(group[position], bucket)[0];
    const Transfer first = At(plan_, {group[position], at});
    std::vector<Transfer> others = BucketTransfers(
        plan_, bucket, position, first.kind != TransferKind::kAllReducePairs,
        CountedParameters(plan_));
    for (Transfer& other : others) {
      other.after_task = first.after_task;
      other.after = first.after;
      at = InsertBehind(rank, at, std::move(other));
    }
    const size_t added = others.size();
    std::vector<TransferRef> all = TransfersOf(group[position], bucket);
    while (all.size() > added) {
      TransferRef gone = all[0];
      for (const TransferRef& ref : all) {
        const bool is_new = ref.index > at.index - static_cast<int>(added) &&
                            ref.index <= at.index;
        if (!is_new) gone = ref;
      }
      Remove(rank, gone);
      if (gone.index < at.index) --at.index;
      all = TransfersOf(group[position], bucket);
    }
  }

  void AnnouncedAsWell() {
    if (plan_.buckets.empty()) return;
    Bucket& bucket = plan_.buckets[Draw(plan_.buckets.size())];
    bucket.announced = !bucket.announced;
    if (bucket.announced && Draw(2) == 0 && bucket.wire) {
      bucket.error_feedback = true;
    }
  }

  void VerdictDropped() {
    const bool whole = Draw(2) == 0;
    const int part = Draw(3);
    for (const int rank : SomeOrAll()) {
      RankPlan& of = plan_.ranks[rank];
      const int lane = VerdictLane(of);
      if (lane < 0) return;
      const int last = static_cast<int>(of.lanes[lane].transfers.size()) - 1;
      if (!whole) {
        Remove(of, {lane, std::min(part, last)});
        continue;
      }
      for (int i = last; i >= 0; --i) Remove(of, {lane, i});
      of.lanes.erase(of.lanes.begin() + lane);
    }
  }

  void VerdictDoubled() {
    const bool whole = Draw(2) == 0;
    for (const int rank : SomeOrAll()) {
      RankPlan& of = plan_.ranks[rank];
      const int lane = VerdictLane(of);
      if (lane < 0) return;
      if (!whole) {
        InsertBehind(of, {lane, 0}, of.lanes[lane].transfers[0]);
        continue;
      }
      const std::vector<Transfer> transfers = of.lanes[lane].transfers;
      const int second = AddLane(of, LaneKind::kVerdict, "again");
      for (const Transfer& transfer : transfers) Append(of, second, transfer);
    }
  }

  void VerdictOfAnotherKind() {
    const int how = Draw(6);
    const int part = Draw(3);
    const int group = Draw(3);
    for (const int rank : SomeOrAll()) {
      RankPlan& of = plan_.ranks[rank];
      const int lane = VerdictLane(of);
      if (lane < 0) return;
      std::vector<Transfer>& all = of.lanes[lane].transfers;
      Transfer& t = all[std::min<size_t>(part, all.size() - 1)];
      switch (how) {
        case 0: t.kind = TransferKind::kAllGather; break;
        case 1: t.shape = {t.shape[0] + 1}; break;
        case 2: t.dtype = DType::kI64; break;
        case 3:
          t.op = t.op == ReduceOp::kMax ? ReduceOp::kSum : ReduceOp::kMax;
          break;
        case 4: t.group = group; break;
        default: std::swap(all[0], all[1]);
      }
    }
  }

  void VerdictElsewhere() {
    if (plan_.communicators.size() < 2) return;
    const int own =
        AddCommunicator(plan_, "elsewhere", plan_.communicators[0].ranks);
    for (RankPlan& rank : plan_.ranks) {
      const int lane = VerdictLane(rank);
      if (lane < 0) return;
      for (Transfer& t : rank.lanes[lane].transfers) t.communicator = own;
    }
  }

  // The lane's launches go before others, everywhere or on some ranks.
  void VerdictEarlier() {
    const int by = 1 + Draw(4);
    for (const int rank : SomeOrAll()) {
      RankPlan& of = plan_.ranks[rank];
      const int lane = VerdictLane(of);
      if (lane < 0) return;
      std::vector<TransferRef>& order = of.launch_order;
      const size_t parts = of.lanes[lane].transfers.size();
      const size_t others = order.size() - parts;
      const size_t earlier = std::min<size_t>(by, others);
      std::rotate(order.end() - parts - earlier, order.end() - parts,
                  order.end());
    }
  }

 private:
  // With the norms that follow from the parameters.
  void CountAgain(int rank, int bucket) {
    const std::vector<int>& group = BucketGroup(bucket);
    const auto position = std::find(group.begin(), group.end(), rank);
    const std::vector<TransferRef> refs = TransfersOf(rank, bucket);
    const bool in_pairs =
        At(plan_, {rank, refs[0]}).kind == TransferKind::kAllReducePairs;
    for (const Transfer& counted : BucketTransfers(
             plan_, bucket, static_cast<int>(position - group.begin()),
             in_pairs, CountedParameters(plan_))) {
      for (const TransferRef& ref : refs) {
        Transfer& transfer = At(plan_, {rank, ref});
        const bool is_same = transfer.kind == counted.kind &&
                             transfer.shape == counted.shape &&
                             transfer.group == counted.group;
        if (is_same) transfer.then = counted.then;
      }
    }
  }

  std::vector<int> SomeOrAll() {
    if (Draw(2) == 0) return {Draw(plan_.ranks.size())};
    return plan_.communicators[0].ranks;
  }

  static int VerdictLane(const RankPlan& rank) {
    for (size_t i = 0; i < rank.lanes.size(); ++i) {
      if (rank.lanes[i].kind == LaneKind::kVerdict &&
          !rank.lanes[i].transfers.empty()) {
        return static_cast<int>(i);
      }
    }
    return -1;
  }

  std::optional<Place> AnyWithOps() {
    std::vector<Place> all;
    const int rank = Draw(plan_.ranks.size());
    for (const TransferRef& ref : plan_.ranks[rank].launch_order) {
      const Transfer& transfer = At(plan_, {rank, ref});
      if (!transfer.before.empty() || !transfer.then.empty()) {
        all.push_back({rank, ref});
      }
    }
    if (all.empty()) return std::nullopt;
    return all[Draw(all.size())];
  }

  // One of the two that is not empty.
  static std::vector<LocalOp>& SideOf(Transfer& transfer, bool before) {
    const bool takes_before =
        transfer.then.empty() || (before && !transfer.before.empty());
    return takes_before ? transfer.before : transfer.then;
  }

  // Edits an operation, on one rank or on all that have the same transfer.
  template <typename EditOps>
  void Edit(const EditOps& edit) {
    const std::optional<Place> any = AnyWithOps();
    if (!any) return;
    const bool before = Draw(2) == 0;
    const bool everywhere = Draw(2) == 0;
    const size_t at = Draw(SideOf(At(plan_, *any), before).size());
    for (size_t r = 0; r < plan_.ranks.size(); ++r) {
      if (!everywhere && static_cast<int>(r) != any->rank) continue;
      RankPlan& rank = plan_.ranks[r];
      const size_t lane = any->ref.lane;
      const size_t index = any->ref.index;
      if (lane >= rank.lanes.size() ||
          index >= rank.lanes[lane].transfers.size()) {
        continue;
      }
      Transfer& transfer = rank.lanes[lane].transfers[index];
      if (transfer.before.empty() && transfer.then.empty()) continue;
      std::vector<LocalOp>& ops = SideOf(transfer, before);
      if (at < ops.size()) edit(ops, at);
    }
  }

  // Those of one rank.
  std::vector<LocalOp*> Norms() {
    std::vector<LocalOp*> norms;
    for (Lane& lane : AnyRank().lanes) {
      for (Transfer& transfer : lane.transfers) {
        for (LocalOp& op : transfer.then) {
          if (op.kind == LocalKind::kNorm) norms.push_back(&op);
        }
      }
    }
    return norms;
  }
};

}  // namespace

const std::vector<Mutation>& WrongOperations() {
  using M = OperationMutator;
  static const auto* const all = new std::vector<Mutation>{
      {"operation dropped", Apply<M, &M::Dropped>},
      {"operation doubled", Apply<M, &M::Doubled>},
      {"operations out of order", Apply<M, &M::OutOfOrder>},
      {"operation of another type", Apply<M, &M::OfAnotherType>},
      {"operation of other elements", Apply<M, &M::OfOtherElements>},
      {"operation, another divisor", Apply<M, &M::WithAnotherDivisor>},
      {"operation on the wrong side", Apply<M, &M::OnTheWrongSide>},
      {"operation, another transfer", Apply<M, &M::OnAnotherTransfer>},
      {"norm of other elements", Apply<M, &M::NormOfOtherElements>},
      {"norm for another leaf", Apply<M, &M::NormForAnotherLeaf>},
      {"shared counted at both ends", Apply<M, &M::SharedCountedAtBothEnds>},
      {"some ranks sum in pairs", Apply<M, &M::SomeInPairs>},
      {"announced as well", Apply<M, &M::AnnouncedAsWell>},
      {"verdict dropped", Apply<M, &M::VerdictDropped>},
      {"verdict doubled", Apply<M, &M::VerdictDoubled>},
      {"verdict of another kind", Apply<M, &M::VerdictOfAnotherKind>},
      {"verdict elsewhere", Apply<M, &M::VerdictElsewhere>},
      {"verdict earlier", Apply<M, &M::VerdictEarlier>}};
  return *all;
}

}  // namespace lockstep::plan
