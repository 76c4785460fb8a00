#include "server/core/value_digest_tracker.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/rank_list.h"

namespace lockstep::core {
namespace {

constexpr size_t kNamesMax = 8;

// The lowest rank that holds the parameter of a group.
int LowestHolder(const plan::Plan& plan, const Parameter& parameter,
                 const plan::CommunicatorSpec& group) {
  std::vector<int> place = plan.mesh.CoordinatesOf(group.ranks[0]);
  for (const std::string& axis : parameter.replicated_over) {
    place[plan.mesh.AxisIndex(axis)] = 0;
  }
  return plan.mesh.RankAt(place);
}

// "ranks 0-2 and rank 3": the largest group first.
std::string Named(std::vector<std::vector<int>> groups) {
  for (std::vector<int>& ranks : groups) std::sort(ranks.begin(), ranks.end());
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  });
  std::vector<std::string> names;
  for (size_t g = 0; g < std::min(groups.size(), kNamesMax); ++g) {
    names.push_back(RankList(groups[g]));
  }
  if (groups.size() > kNamesMax) {
    names.push_back(Count(groups.size() - kNamesMax, "more group"));
  }
  const std::string last = names.back();
  names.pop_back();
  return absl::StrCat(absl::StrJoin(names, ", "), " and ", last);
}

}  // namespace

// The plan has one parameter for each group.
void ValueDigestTracker::FindHolders(const plan::Plan& plan) {
  std::map<std::pair<std::string, int>, int> known;
  value_of_.assign(plan.parameters.size(), -1);
  for (const plan::Bucket& bucket : plan.buckets) {
    const plan::CommunicatorSpec& group =
        plan.communicators[bucket.communicator];
    for (const plan::Slot& slot : bucket.slots) {
      const Parameter& parameter = plan.parameters[slot.parameter];
      const int lowest = LowestHolder(plan, parameter, group);
      const auto [at, is_new] = known.try_emplace(
          {parameter.name, lowest}, static_cast<int>(values_.size()));
      if (is_new) values_.push_back({.name = parameter.name});
      value_of_[slot.parameter] = at->second;
    }
  }
}

bool ValueDigestTracker::Add(int rank, const protocol::ValueDigests& values,
                             const plan::Plan& plan) {
  if (values.digests.size() != values.parameters.size()) return false;
  for (const uint32_t parameter : values.parameters) {
    if (parameter >= plan.parameters.size()) return false;
  }
  if (!said_.Add(rank)) return true;
  if (value_of_.empty()) FindHolders(plan);
  for (size_t i = 0; i < values.parameters.size(); ++i) {
    const int place = value_of_[values.parameters[i]];
    if (place < 0) continue;
    Value& value = values_[place];
    const uint64_t digest = values.digests[i];
    const auto group =
        std::find_if(value.groups.begin(), value.groups.end(),
                     [&](const Group& g) { return g.digest == digest; });
    if (group != value.groups.end()) {
      group->ranks.push_back(rank);
      continue;
    }
    value.groups.push_back({digest, {rank}});
    if (value.groups.size() == 1) continue;
    value.is_news = true;
    has_news_ = true;
  }
  return true;
}

std::string ValueDigestTracker::Take() {
  if (!std::exchange(has_news_, false)) return "";
  // Groups parameters that differ between the same ranks.
  std::map<std::string, std::vector<std::string>> alike;
  for (Value& value : values_) {
    if (!std::exchange(value.is_news, false)) continue;
    std::vector<std::vector<int>> groups;
    for (const Group& group : value.groups) groups.push_back(group.ranks);
    alike[Named(std::move(groups))].push_back(value.name);
  }
  std::vector<std::string> sentences;
  for (auto& [ranks, names] : alike) {
    const size_t more = names.size() - std::min(names.size(), kNamesMax);
    names.resize(names.size() - more);
    sentences.push_back(
        absl::StrCat(absl::StrJoin(names, ", "), more > 0 ? " and " : "",
                     more > 0 ? absl::StrCat(more, " more") : "", ": ", ranks,
                     " begin with different values"));
  }
  return absl::StrCat(absl::StrJoin(sentences, "; "),
                      " (load the same weights on all ranks)");
}

}  // namespace lockstep::core
