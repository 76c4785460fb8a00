#include "plan/verify/agreement.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/text/rank_list.h"

namespace lockstep::plan {
namespace {

auto CollectiveTerms(const Transfer& t) {
  return std::tuple(t.kind, CountOf(t), t.dtype, t.op, t.root, t.bucket);
}

auto PointToPointTerms(const Transfer& t) {
  return std::tie(t.tag, t.shape, t.dtype);
}

using Members = std::vector<std::vector<PlanNode>>;

// Whether all members' `number`-th collectives have equal fields.
bool Agree(const Plan& plan, const Members& members, size_t number) {
  for (const std::vector<PlanNode>& member : members) {
    if (number >= member.size()) return false;
    if (CollectiveTerms(At(plan, member[number])) !=
        CollectiveTerms(At(plan, members[0][number]))) {
      return false;
    }
  }
  return true;
}

void CheckMembers(const Plan& plan, const CommunicatorSpec& communicator,
                  const Members& members, Diagnostics& diagnostics) {
  size_t longest = 0;
  for (const auto& member : members) longest = std::max(longest, member.size());
  size_t number = 0;
  while (number < longest && Agree(plan, members, number)) ++number;
  if (number == longest) return;

  std::vector<std::pair<int, std::string>> said_by_rank;
  for (size_t i = 0; i < members.size(); ++i) {
    said_by_rank.emplace_back(communicator.ranks[i],
                              number < members[i].size()
                                  ? Describe(At(plan, members[i][number]))
                                  : "nothing");
  }
  diagnostics.Add(
      Rule::kCollectives, communicator.ranks,
      absl::StrFormat("disagree on collective %d of communicator %s: "
                      "%s",
                      number, communicator.name, WhoSaidWhat(said_by_rank)));
}

// Describes the entry at an index of a list, or "nothing" beyond its end.
std::string Said(const Plan& plan, const std::vector<PlanNode>& places,
                 size_t number) {
  return number < places.size() ? Describe(plan, places[number]) : "nothing";
}

void CheckChannel(const Plan& plan, int source, int destination,
                  const Channel& channel, Diagnostics& diagnostics) {
  const auto& [sends, receives] = channel;
  const size_t both = std::min(sends.size(), receives.size());
  size_t number = 0;
  while (number < both && PointToPointTerms(At(plan, sends[number])) ==
                              PointToPointTerms(At(plan, receives[number]))) {
    ++number;
  }
  if (number == sends.size() && number == receives.size()) return;
  diagnostics.Add(
      Rule::kPointToPoint, {source, destination},
      absl::StrFormat("message %d from rank %d to rank %d: sent by "
                      "%s, received by %s",
                      number, source, destination, Said(plan, sends, number),
                      Said(plan, receives, number)));
}

}  // namespace

void CheckCollectives(const Plan& plan, const Traffic& traffic,
                      Diagnostics& diagnostics) {
  for (size_t i = 0; i < plan.communicators.size(); ++i) {
    CheckMembers(plan, plan.communicators[i], traffic.collectives[i],
                 diagnostics);
  }
}

void CheckPointToPoint(const Plan& plan, const Traffic& traffic,
                       Diagnostics& diagnostics) {
  for (const auto& [key, channel] : traffic.channels) {
    const auto [communicator, source, destination] = key;
    const std::vector<int>& ranks = plan.communicators[communicator].ranks;
    CheckChannel(plan, ranks[source], ranks[destination], channel, diagnostics);
  }
}

}  // namespace lockstep::plan
