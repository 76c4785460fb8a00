// Hand-written plans for the verifier's tests.

#ifndef LOCKSTEP_TESTS_PLAN_VERIFY_BUILDER_H_
#define LOCKSTEP_TESTS_PLAN_VERIFY_BUILDER_H_

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "plan/bucket_transfers.h"
#include "plan/ir.h"

namespace lockstep::plan {

inline Transfer SendTo(int communicator, int peer, uint64_t tag = 0) {
  return {.kind = TransferKind::kSend,
          .communicator = communicator,
          .shape = {4},
          .peer = peer,
          .tag = tag};
}

inline Transfer RecvFrom(int communicator, int peer, uint64_t tag = 0) {
  Transfer transfer = SendTo(communicator, peer, tag);
  transfer.kind = TransferKind::kRecv;
  return transfer;
}

inline Transfer Together(int communicator) {
  return {.kind = TransferKind::kAllReduce,
          .communicator = communicator,
          .shape = {4}};
}

// The PlanBuilder's communicator of all ranks.
inline constexpr int kEveryone = 1;

// Transfers are launched in the order in which they are added.
class PlanBuilder {
 public:
  explicit PlanBuilder(int world) {
    plan_.mesh.axes = {{"data", world}};
    plan_.ranks.resize(world);
    std::vector<int> everyone(world);
    std::iota(everyone.begin(), everyone.end(), 0);
    Group("verdict", everyone);
    Group("everyone", everyone);
  }

  int Group(const std::string& name, std::vector<int> ranks) {
    plan_.communicators.push_back({name, std::move(ranks)});
    return static_cast<int>(plan_.communicators.size()) - 1;
  }

  TransferRef Add(int rank, const std::string& lane_name, Transfer transfer) {
    RankPlan& of_rank = plan_.ranks[rank];
    size_t lane = 0;
    while (lane < of_rank.lanes.size() &&
           of_rank.lanes[lane].name != lane_name) {
      ++lane;
    }
    if (lane == of_rank.lanes.size()) {
      of_rank.lanes.push_back({.kind = LaneKind::kState, .name = lane_name});
    }
    std::vector<Transfer>& transfers = of_rank.lanes[lane].transfers;
    const TransferRef ref{static_cast<int>(lane),
                          static_cast<int>(transfers.size())};
    transfers.push_back(std::move(transfer));
    of_rank.launch_order.push_back(ref);
    return ref;
  }

  // Without verdicts.
  Plan& plan() { return plan_; }

 private:
  Plan plan_;
};

// The plan with a verdict after all transfers, on ranks that have none.
inline Plan WithVerdicts(Plan plan) {
  for (RankPlan& rank : plan.ranks) {
    if (!rank.lanes.empty() && rank.lanes.back().kind == LaneKind::kVerdict) {
      continue;
    }
    const int lane = static_cast<int>(rank.lanes.size());
    rank.lanes.push_back({.kind = LaneKind::kVerdict,
                          .name = "verdict",
                          .transfers = VerdictTransfers(plan, false)});
    rank.launch_order.push_back({lane, 0});
    rank.launch_order.push_back({lane, 1});
  }
  return plan;
}

// Inserts a launch before the rank's verdict, if it has one.
inline void Launch(RankPlan& rank, TransferRef ref) {
  std::vector<TransferRef>& order = rank.launch_order;
  auto at = order.end();
  while (at != order.begin() &&
         rank.lanes[(at - 1)->lane].kind == LaneKind::kVerdict) {
    --at;
  }
  order.insert(at, ref);
}

inline Transfer InGroup(Transfer transfer, int group) {
  transfer.group = group;
  return transfer;
}

inline Transfer After(Transfer transfer, std::vector<TransferRef> after) {
  transfer.after = std::move(after);
  return transfer;
}

}  // namespace lockstep::plan

#endif  // LOCKSTEP_TESTS_PLAN_VERIFY_BUILDER_H_
