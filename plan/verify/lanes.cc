// What each rank of a plan does: its lanes, its transfers, its launch order.

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_format.h"
#include "plan/verify/roster.h"
#include "plan/verify/structure.h"

namespace lockstep::plan {
namespace {

constexpr int64_t kElementsMax = int64_t{1} << 48;

bool IsKind(TransferKind kind) { return Name(kind) != "?"; }

bool Reduces(TransferKind kind) {
  return kind == TransferKind::kAllReduce ||
         kind == TransferKind::kReduceScatter;
}

// Extents not negative, and their product small enough to count with.
bool IsShape(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t extent : shape) {
    if (extent < 0 || extent > kElementsMax / std::max<int64_t>(elements, 1)) {
      return false;
    }
    elements *= extent;
  }
  return true;
}

bool InOneGroup(const Lane& lane, int earlier, int later) {
  const int group = lane.transfers[later].group;
  return group != 0 && lane.transfers[earlier].group == group;
}

// The fields of one transfer, each by itself. Returns what is wrong with the
// first that is, or nothing.
class TransferCheck {
 public:
  TransferCheck(const Plan& plan, const Roster& roster)
      : plan_(plan), roster_(roster) {}

  std::string FaultOf(int rank, LaneKind lane, const Transfer& t) const {
    if (!IsKind(t.kind)) return "is of no kind";
    if (t.communicator < 0 ||
        static_cast<size_t>(t.communicator) >= plan_.communicators.size()) {
      return absl::StrFormat("names communicator %d of %d", t.communicator,
                             plan_.communicators.size());
    }
    if (roster_.PositionOf(rank, t.communicator) < 0) {
      return absl::StrFormat(
          "is on communicator %s, of which the rank is no "
          "member",
          plan_.communicators[t.communicator].name);
    }
    // In this order: the later ones count elements.
    std::string fault = PayloadFault(t);
    if (fault.empty()) fault = OpFault(t);
    if (fault.empty()) fault = PartnerFault(rank, t);
    if (fault.empty()) fault = BucketFault(lane, t);
    if (!fault.empty()) return fault;
    return t.group < 0 ? "has a negative group" : "";
  }

 private:
  int SizeOf(const Transfer& t) const {
    return static_cast<int>(plan_.communicators[t.communicator].ranks.size());
  }

  std::string PayloadFault(const Transfer& t) const {
    if (lockstep::SizeOf(t.dtype) == 0) return "has no dtype";
    if (!IsShape(t.shape)) return "has a shape that is negative or too large";
    if (t.kind == TransferKind::kBarrier &&
        (!t.shape.empty() || t.dtype != DType::kF32)) {
      return "is a barrier with a shape or a dtype";
    }
    const bool divides = t.kind == TransferKind::kReduceScatter ||
                         t.kind == TransferKind::kAllToAll;
    if (divides && CountOf(t) % SizeOf(t) != 0) {
      return absl::StrFormat("divides %d elements among %d ranks", CountOf(t),
                             SizeOf(t));
    }
    return "";
  }

  std::string OpFault(const Transfer& t) const {
    if (!Reduces(t.kind)) {
      return t.op == ReduceOp::kSum ? "" : "has an op and reduces nothing";
    }
    if (Name(t.op) == "?") return "has no op";
    if (t.op == ReduceOp::kMean && !IsFloat(t.dtype)) {
      return "is a mean of whole numbers";
    }
    return "";
  }

  std::string PartnerFault(int rank, const Transfer& t) const {
    const bool has_root = t.kind == TransferKind::kBroadcast;
    if (has_root ? t.root < 0 || t.root >= SizeOf(t) : t.root != -1) {
      return absl::StrFormat("has root %d", t.root);
    }
    if (!IsPointToPoint(t.kind)) {
      return t.peer == -1 && t.tag == 0 ? "" : "has a peer or a tag";
    }
    if (t.peer < 0 || t.peer >= SizeOf(t)) {
      return absl::StrFormat("has peer %d of %d", t.peer, SizeOf(t));
    }
    return plan_.communicators[t.communicator].ranks[t.peer] == rank
               ? "is its own peer"
               : "";
  }

  std::string BucketFault(LaneKind lane, const Transfer& t) const {
    if (t.bucket == -1) return "";
    if (t.bucket < 0 || static_cast<size_t>(t.bucket) >= plan_.buckets.size()) {
      return absl::StrFormat("names bucket %d of %d", t.bucket,
                             plan_.buckets.size());
    }
    const Bucket& bucket = plan_.buckets[t.bucket];
    const Transfer reduction{.kind = TransferKind::kAllReduce,
                             .communicator = bucket.communicator,
                             .dtype = bucket.dtype,
                             .shape = {bucket.total},
                             .op = bucket.op,
                             .bucket = t.bucket,
                             .group = t.group,
                             .after = t.after,
                             .after_task = t.after_task};
    if (lane == LaneKind::kGradient && t == reduction) return "";
    return absl::StrFormat(
        "is %s on communicator %d, but its bucket asks for %s on %d in a "
        "gradient lane",
        Describe(t), t.communicator, Describe(reduction),
        reduction.communicator);
  }

  const Plan& plan_;
  const Roster& roster_;
};

// One rank's lanes.
class RankCheck {
 public:
  // The rank should reduce `buckets_held` buckets.
  RankCheck(const Plan& plan, const Roster& roster, int rank,
            size_t buckets_held, Findings& findings)
      : plan_(plan),
        lanes_(plan.ranks[rank].lanes),
        launch_order_(plan.ranks[rank].launch_order),
        transfer_check_(plan, roster),
        roster_(roster),
        rank_(rank),
        buckets_held_(buckets_held),
        findings_(findings) {}

  void Run() {
    CheckLaneNames();
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      CheckTransfers(static_cast<int>(lane));
    }
    CheckCoverage();
    CheckLaunchOrder();
  }

 private:
  template <typename... Args>
  void Find(Rule rule, const absl::FormatSpec<Args...>& format,
            const Args&... args) {
    findings_.Add(rule, {rank_}, absl::StrFormat(format, args...));
  }

  bool Exists(const TransferRef& ref) const {
    return ref.lane >= 0 && static_cast<size_t>(ref.lane) < lanes_.size() &&
           ref.index >= 0 &&
           static_cast<size_t>(ref.index) < lanes_[ref.lane].transfers.size();
  }

  void CheckLaneNames() {
    std::set<std::string> names;
    for (const Lane& lane : lanes_) {
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
      CheckAfter({lane, static_cast<int>(i)}, transfer);
      CheckOneLane(lane, transfer.communicator);
      CheckFirstReduction(transfer.bucket);
    }
  }

  void CheckAfter(const TransferRef& self, const Transfer& transfer) {
    for (const TransferRef& ref : transfer.after) {
      if (Exists(ref) && ref != self) continue;
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

  void CheckFirstReduction(int bucket) {
    if (bucket >= 0 && !reduced_.insert(bucket).second) {
      Find(Rule::kBucketCoverage, "reduces bucket %d twice", bucket);
    }
  }

  // What was reduced are buckets of the rank's, each counted once.
  void CheckCoverage() {
    if (reduced_.size() == buckets_held_) return;
    for (size_t i = 0; i < plan_.buckets.size(); ++i) {
      const bool held =
          roster_.PositionOf(rank_, plan_.buckets[i].communicator) >= 0;
      if (held && !reduced_.contains(static_cast<int>(i))) {
        return Find(Rule::kBucketCoverage, "never reduces bucket %d", i);
      }
    }
  }

  // Lanes are walked in step with the order: each entry must be the next of
  // its lane, which leaves no room for gaps or repetitions.
  void CheckLaunchOrder() {
    std::vector<int> next(lanes_.size(), 0);
    TransferRef previous;
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

  const Plan& plan_;
  const std::vector<Lane>& lanes_;
  const std::vector<TransferRef>& launch_order_;
  const TransferCheck transfer_check_;
  const Roster& roster_;
  const int rank_;
  const size_t buckets_held_;
  Findings& findings_;
  std::set<int> reduced_;       // buckets
  std::map<int, int> lane_of_;  // of each communicator that is used
};

// How many buckets each rank is to reduce.
std::vector<size_t> BucketsHeld(const Plan& plan) {
  std::vector<size_t> on_communicator(plan.communicators.size(), 0);
  for (const Bucket& bucket : plan.buckets) {
    ++on_communicator[bucket.communicator];
  }
  std::vector<size_t> held(plan.ranks.size(), 0);
  for (size_t i = 0; i < plan.communicators.size(); ++i) {
    for (const int rank : plan.communicators[i].ranks) {
      held[rank] += on_communicator[i];
    }
  }
  return held;
}

}  // namespace

void CheckLanes(const Plan& plan, Findings& findings) {
  const Roster roster(plan.communicators);
  const std::vector<size_t> held = BucketsHeld(plan);
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    if (findings.full()) return;
    RankCheck(plan, roster, static_cast<int>(rank), held[rank], findings).Run();
  }
}

}  // namespace lockstep::plan
