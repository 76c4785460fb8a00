#include "plan/verify/traffic.h"

#include "absl/strings/str_format.h"

namespace lockstep::plan {

const Transfer& At(const Plan& plan, const Place& place) {
  return plan.ranks[place.rank]
      .lanes[place.ref.lane]
      .transfers[place.ref.index];
}

std::string Describe(const Plan& plan, const Place& place) {
  return absl::StrFormat("transfer %d of lane %s (%s)", place.ref.index,
                         plan.ranks[place.rank].lanes[place.ref.lane].name,
                         Describe(At(plan, place)));
}

Traffic TrafficOf(const Plan& plan) {
  const Roster roster(plan.communicators);
  Traffic traffic;
  for (const Communicator& communicator : plan.communicators) {
    traffic.collectives.emplace_back(communicator.ranks.size());
  }
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    for (const TransferRef& ref : plan.ranks[rank].launch_order) {
      const Place place{static_cast<int>(rank), ref};
      const Transfer& transfer = At(plan, place);
      const int communicator = transfer.communicator;
      const int self = roster.PositionOf(place.rank, communicator);
      if (transfer.kind == TransferKind::kSend) {
        traffic.channels[{communicator, self, transfer.peer}].sends.push_back(
            place);
      } else if (transfer.kind == TransferKind::kRecv) {
        traffic.channels[{communicator, transfer.peer, self}]
            .receives.push_back(place);
      } else {
        traffic.collectives[communicator][self].push_back(place);
      }
    }
  }
  return traffic;
}

}  // namespace lockstep::plan
