// Checks each rank's lanes, transfers and launch order.

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "absl/strings/str_format.h"
#include "plan/schedule/pipeline_shape.h"
#include "plan/shard.h"
#include "plan/verify/operations.h"
#include "plan/verify/roster.h"
#include "plan/verify/structure.h"
#include "plan/verify/transfers.h"

namespace lockstep::plan {
namespace {

// The transfers that a bucket needs, once each on every rank that has it.
std::span<const TransferKind> KindsOf(const Bucket& bucket, bool in_pairs) {
  static constexpr TransferKind kWhole[] = {TransferKind::kAllReduce};
  static constexpr TransferKind kSharded[] = {TransferKind::kAllGather,
                                              TransferKind::kReduceScatter,
                                              TransferKind::kAllReduce};
  static constexpr TransferKind kOfLeaves[] = {TransferKind::kAllToAll,
                                               TransferKind::kAllGather,
                                               TransferKind::kAllReduce};
  static constexpr TransferKind kInPairs[] = {TransferKind::kAllReducePairs};
  if (bucket.leaves > 0 && in_pairs) return kInPairs;
  if (bucket.leaves > 0) return kOfLeaves;
  if (bucket.sharded) return kSharded;
  return kWhole;
}

bool InOneGroup(const Lane& lane, int earlier, int later) {
  const int group = lane.transfers[later].group;
  return group != 0 && lane.transfers[earlier].group == group;
}

// One rank's lanes.
class RankCheck {
 public:
  // The rank must have `moves_needed` transfers of buckets; `in_pairs` has the
  // buckets that are summed in pairs.
  RankCheck(const Plan& plan, const CommunicatorMembers& roster, int rank,
            size_t moves_needed, const std::vector<bool>& in_pairs,
            const std::vector<Transfer>& verdict_needed,
            Diagnostics& diagnostics)
      : plan_(plan),
        lanes_(plan.ranks[rank].lanes),
        launch_order_(plan.ranks[rank].launch_order),
        transfer_check_(plan, roster),
        roster_(roster),
        rank_(rank),
        moves_needed_(moves_needed),
        in_pairs_(in_pairs),
        verdict_needed_(verdict_needed),
        diagnostics_(diagnostics) {}

  void Run() {
    CheckLaneNames();
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      CheckTransfers(static_cast<int>(lane));
    }
    CheckVerdict();
    CheckCoverage();
    CheckLaunchOrder();
  }

 private:
  template <typename... Args>
  void Find(Rule rule, const absl::FormatSpec<Args...>& format,
            const Args&... args) {
    diagnostics_.Add(rule, {rank_}, absl::StrFormat(format, args...));
  }

  bool Exists(const TransferRef& ref) const {
    return ref.lane >= 0 && static_cast<size_t>(ref.lane) < lanes_.size() &&
           ref.index >= 0 &&
           static_cast<size_t>(ref.index) < lanes_[ref.lane].transfers.size();
  }

  void CheckLaneNames() {
    std::set<std::string> names;
    const Lane* gradient = nullptr;
    for (const Lane& lane : lanes_) {
      if (lane.kind == LaneKind::kPipeline && !HasPipeline(plan_.pipeline)) {
        Find(Rule::kLanes, "lane %s is of a pipeline, which the plan has not",
             lane.name);
      }
      if (lane.kind == LaneKind::kGradient) {
        if (gradient != nullptr) {
          Find(Rule::kLanes, "lanes %s and %s are both of gradients",
               gradient->name, lane.name);
        }
        gradient = &lane;
      }
      if (Name(lane.kind) == "?") {
        Find(Rule::kLanes, "lane %s is of no kind", lane.name);
      }
      if (lane.name.empty() || !names.insert(lane.name).second) {
        Find(Rule::kLanes, "lane name \"%s\" is empty or there twice",
             lane.name);
      }
    }
  }

  void CheckTransfers(int lane) {
    const std::vector<Transfer>& transfers = lanes_[lane].transfers;
    for (size_t i = 0; i < transfers.size(); ++i) {
      const Transfer& transfer = transfers[i];
      const std::string fault =
          transfer_check_.FaultOf(rank_, lanes_[lane].kind, transfer);
      if (!fault.empty()) {
        Find(Rule::kTransfers, "transfer %d of lane %s %s", i,
             lanes_[lane].name, fault);
        continue;
      }
      if (lanes_[lane].kind != LaneKind::kVerdict) {
        const std::string ops = transfer_check_.OpsFault(rank_, transfer);
        if (!ops.empty()) {
          Find(Rule::kOperations, "transfer %d of lane %s (%s) %s", i,
               lanes_[lane].name, Describe(transfer), ops);
        }
      }
      CheckBesideFlags(lanes_[lane], i);
      CheckAfter({lane, static_cast<int>(i)}, transfer);
      CheckOneLane(lane, transfer.communicator);
      CheckFirst(transfer);
    }
  }

  // The slices of a bucket and its flags are one group on all ranks.
  void CheckBesideFlags(const Lane& lane, size_t index) {
    const Transfer& transfer = lane.transfers[index];
    if (transfer.bucket < 0 || transfer.group == 0 ||
        !HasSlices(plan_.buckets[transfer.bucket])) {
      return;
    }
    const int at = static_cast<int>(index);
    const bool has_neighbour =
        (index > 0 && InOneGroup(lane, at - 1, at)) ||
        (index + 1 < lane.transfers.size() && InOneGroup(lane, at, at + 1));
    if (has_neighbour) return;
    Find(Rule::kTransfers,
         "transfer %d of lane %s (%s) is apart from the other one of group %d",
         index, lane.name, Describe(transfer), transfer.group);
  }

  void CheckVerdict() {
    const Lane* verdict = nullptr;
    for (const Lane& lane : lanes_) {
      if (lane.kind != LaneKind::kVerdict) continue;
      if (verdict != nullptr) {
        return Find(Rule::kVerdict, "lanes %s and %s are both of verdicts",
                    verdict->name, lane.name);
      }
      verdict = &lane;
    }
    if (verdict == nullptr) {
      return Find(Rule::kVerdict, "has no lane of a verdict");
    }
    if (verdict->transfers.size() != verdict_needed_.size()) {
      return Find(Rule::kVerdict, "has %d transfers in its verdict, not %d",
                  verdict->transfers.size(), verdict_needed_.size());
    }
    for (size_t i = 0; i < verdict_needed_.size(); ++i) {
      const std::string fault =
          VerdictFault(verdict->transfers[i], verdict_needed_[i]);
      if (fault.empty()) continue;
      return Find(Rule::kVerdict, "transfer %d of lane %s %s", i, verdict->name,
                  fault);
    }
  }

  // Assumes a valid communicator and valid numbers.
  static std::string VerdictFault(const Transfer& given,
                                  const Transfer& needed) {
    Transfer without_ops = given;
    without_ops.before = needed.before;
    without_ops.then = needed.then;
    if (without_ops != needed) {
      return absl::StrFormat(
          "is %s in group %d, and must be %s, in group %d, and wait for "
          "nothing",
          Describe(given), given.group, Describe(needed), needed.group);
    }
    std::string fault =
        SideFault(given.before, needed.before, needed.then, "before");
    if (fault.empty()) {
      fault = SideFault(given.then, needed.then, needed.before, "behind");
    }
    return fault;
  }

  void CheckAfter(const TransferRef& self, const Transfer& transfer) {
    for (const TransferRef& ref : transfer.after) {
      if (Exists(ref) && ref != self) {
        if (lanes_[ref.lane].kind != LaneKind::kVerdict) continue;
        Find(
            Rule::kTransfers,
            "transfer %d of lane %s waits for the verdict, which waits for all "
            "else",
            self.index, lanes_[self.lane].name);
        continue;
      }
      Find(Rule::kTransfers,
           "transfer %d of lane %s waits for transfer %d of lane %d, which is "
           "itself or does not exist",
           self.index, lanes_[self.lane].name, ref.index, ref.lane);
    }
  }

  void CheckOneLane(int lane, int communicator) {
    const auto [user, is_first] = lane_of_.try_emplace(communicator, lane);
    if (is_first || user->second == lane) return;
    Find(Rule::kLanes, "communicator %s is used in lane %s and in lane %s",
         plan_.communicators[communicator].name, lanes_[user->second].name,
         lanes_[lane].name);
    user->second = lane;
  }

  void CheckFirst(const Transfer& transfer) {
    if (transfer.bucket < 0) return;
    if (plan_.buckets[transfer.bucket].leaves > 0 &&
        transfer.kind != TransferKind::kAllToAll &&
        !in_pairs_[transfer.bucket] &&
        !moved_.contains({transfer.bucket, TransferKind::kAllToAll})) {
      Find(Rule::kBucketCoverage,
           "has the %s of bucket %d before the exchange of its sums",
           Name(transfer.kind), transfer.bucket);
    }
    if (!moved_.insert({transfer.bucket, transfer.kind}).second) {
      Find(Rule::kBucketCoverage, "has a second %s of bucket %d",
           Name(transfer.kind), transfer.bucket);
    }
  }

  // The rank's transfers name only its buckets, and no bucket twice.
  void CheckCoverage() {
    if (moved_.size() == moves_needed_) return;
    for (size_t i = 0; i < plan_.buckets.size(); ++i) {
      const Bucket& bucket = plan_.buckets[i];
      if (roster_.PositionOf(rank_, bucket.communicator) < 0) continue;
      for (const TransferKind kind : KindsOf(bucket, in_pairs_[i])) {
        if (moved_.contains({static_cast<int>(i), kind})) continue;
        return Find(Rule::kBucketCoverage, "has no %s of bucket %d", Name(kind),
                    i);
      }
    }
  }

  // Advances each lane with the order: each entry must be the next of its lane,
  // so there are no gaps or repetitions.
  void CheckLaunchOrder() {
    std::vector<int> next(lanes_.size(), 0);
    TransferRef previous;
    bool others_before = false;
    bool verdict_before = false;
    for (const TransferRef& ref : launch_order_) {
      if (!Exists(ref)) {
        return Find(Rule::kLaunchOrder,
                    "launches transfer %d of lane %d, which does not exist",
                    ref.index, ref.lane);
      }
      const Lane& lane = lanes_[ref.lane];
      if (ref.index != next[ref.lane]) {
        return Find(Rule::kLaunchOrder,
                    "launches transfer %d of lane %s where %d is next",
                    ref.index, lane.name, next[ref.lane]);
      }
      if (ref.index > 0 && InOneGroup(lane, ref.index - 1, ref.index) &&
          previous != TransferRef{ref.lane, ref.index - 1}) {
        Find(Rule::kLaunchOrder,
             "launches something between transfers %d and %d of lane %s, "
             "which are one group",
             ref.index - 1, ref.index, lane.name);
      }
      if (lane.kind == LaneKind::kVerdict) {
        verdict_before = true;
      } else if (verdict_before) {
        return Find(Rule::kLaunchOrder,
                    "launches transfer %d of lane %s behind the verdict",
                    ref.index, lane.name);
      }
      CheckGatheredFirst(lane.transfers[ref.index], others_before);
      others_before |= !GathersParameters(plan_, lane.transfers[ref.index]);
      ++next[ref.lane];
      previous = ref;
    }
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      if (static_cast<size_t>(next[lane]) == lanes_[lane].transfers.size()) {
        continue;
      }
      Find(Rule::kLaunchOrder, "never launches transfer %d of lane %s",
           next[lane], lanes_[lane].name);
    }
  }

  // The parameters updated in the last step must be complete before this step.
  void CheckGatheredFirst(const Transfer& t, bool others_before) {
    if (!GathersParameters(plan_, t) || !others_before) return;
    Find(Rule::kLaunchOrder,
         "gathers the parameters of bucket %d behind other transfers",
         t.bucket);
  }

  const Plan& plan_;
  const std::vector<Lane>& lanes_;
  const std::vector<TransferRef>& launch_order_;
  const TransferCheck transfer_check_;
  const CommunicatorMembers& roster_;
  const int rank_;
  const size_t moves_needed_;
  const std::vector<bool>& in_pairs_;
  const std::vector<Transfer>& verdict_needed_;
  Diagnostics& diagnostics_;
  std::set<std::pair<int, TransferKind>> moved_;  // buckets
  std::map<int, int> lane_of_;  // of each communicator that is used
};

// Which buckets are summed in pairs; all members of each must do the same.
std::vector<bool> SummedInPairs(const Plan& plan, Diagnostics& diagnostics) {
  struct Ranks {
    int in_pairs = -1;
    int exchange = -1;
  };
  std::vector<Ranks> first(plan.buckets.size());
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    for (const Lane& lane : plan.ranks[rank].lanes) {
      for (const Transfer& t : lane.transfers) {
        if (t.bucket < 0 ||
            static_cast<size_t>(t.bucket) >= plan.buckets.size()) {
          continue;
        }
        Ranks& ranks = first[t.bucket];
        int* const found = t.kind == TransferKind::kAllReducePairs
                               ? &ranks.in_pairs
                           : t.kind == TransferKind::kAllToAll ? &ranks.exchange
                                                               : nullptr;
        if (found != nullptr && *found < 0) *found = static_cast<int>(rank);
      }
    }
  }
  std::vector<bool> in_pairs;
  for (size_t b = 0; b < first.size(); ++b) {
    in_pairs.push_back(first[b].in_pairs >= 0);
    if (first[b].in_pairs < 0 || first[b].exchange < 0) continue;
    diagnostics.Add(
        Rule::kBucketCoverage, {first[b].in_pairs, first[b].exchange},
        absl::StrFormat("bucket %d is summed in pairs by rank %d and "
                        "exchanged by rank %d",
                        b, first[b].in_pairs, first[b].exchange));
  }
  return in_pairs;
}

// The number of bucket transfers that each rank must have.
std::vector<size_t> MovesNeeded(const Plan& plan,
                                const std::vector<bool>& in_pairs) {
  std::vector<size_t> on_communicator(plan.communicators.size(), 0);
  for (size_t i = 0; i < plan.buckets.size(); ++i) {
    on_communicator[plan.buckets[i].communicator] +=
        KindsOf(plan.buckets[i], in_pairs[i]).size();
  }
  std::vector<size_t> needed(plan.ranks.size(), 0);
  for (size_t i = 0; i < plan.communicators.size(); ++i) {
    for (const int rank : plan.communicators[i].ranks) {
      needed[rank] += on_communicator[i];
    }
  }
  return needed;
}

}  // namespace

void CheckLanes(const Plan& plan, Diagnostics& diagnostics) {
  const CommunicatorMembers roster(plan.communicators);
  const std::vector<bool> in_pairs = SummedInPairs(plan, diagnostics);
  const std::vector<size_t> needed = MovesNeeded(plan, in_pairs);
  const std::vector<Transfer> verdict = VerdictNeeded(plan);
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    if (diagnostics.full()) return;
    RankCheck(plan, roster, static_cast<int>(rank), needed[rank], in_pairs,
              verdict, diagnostics)
        .Run();
  }
}

}  // namespace lockstep::plan
