#include "plan/verify/traffic.h"

#include "absl/strings/str_format.h"

namespace lockstep::plan {
namespace {

void Add(const Transfer& transfer, const PlanNode& place,
         const CommunicatorMembers& roster, Traffic* traffic) {
  const int communicator = transfer.communicator;
  const int self = roster.PositionOf(place.rank, communicator);
  if (transfer.kind == TransferKind::kSend) {
    traffic->channels[{communicator, self, transfer.peer}].sends.push_back(
        place);
  } else if (transfer.kind == TransferKind::kRecv) {
    traffic->channels[{communicator, transfer.peer, self}].receives.push_back(
        place);
  } else {
    traffic->collectives[communicator][self].push_back(place);
  }
}

}  // namespace

const Transfer& At(const Plan& plan, const PlanNode& place) {
  return plan.ranks[place.rank]
      .lanes[place.ref.lane]
      .transfers[place.ref.index];
}

std::vector<PlanNode> NeedsOf(const Plan& plan, const PlanNode& place) {
  std::vector<PlanNode> needs;
  const auto add = [&](const TransferRef& ref) {
    needs.push_back({place.rank, ref});
  };
  if (IsTask(place)) {
    for (const auto& ref : plan.ranks[place.rank].tasks[place.ref.index].after)
      add(ref);
    return needs;
  }
  const Transfer& transfer = At(plan, place);
  for (const TransferRef& ref : transfer.after) add(ref);
  if (transfer.after_task >= 0) add({kTaskLane, transfer.after_task});
  return needs;
}

std::string Describe(const Plan& plan, const PlanNode& place) {
  if (IsTask(place)) {
    return absl::StrFormat(
        "task %d (%s)", place.ref.index,
        Describe(plan.ranks[place.rank].tasks[place.ref.index]));
  }
  return absl::StrFormat("transfer %d of lane %s (%s)", place.ref.index,
                         plan.ranks[place.rank].lanes[place.ref.lane].name,
                         Describe(At(plan, place)));
}

Traffic TrafficOf(const Plan& plan) {
  const CommunicatorMembers roster(plan.communicators);
  Traffic traffic;
  for (const CommunicatorSpec& communicator : plan.communicators) {
    traffic.collectives.emplace_back(communicator.ranks.size());
  }
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const std::vector<Lane>& lanes = plan.ranks[rank].lanes;
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      for (size_t i = 0; i < lanes[lane].transfers.size(); ++i) {
        Add(lanes[lane].transfers[i],
            {static_cast<int>(rank),
             {static_cast<int>(lane), static_cast<int>(i)}},
            roster, &traffic);
      }
    }
  }
  return traffic;
}

}  // namespace lockstep::plan
