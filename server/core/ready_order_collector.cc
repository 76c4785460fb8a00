#include "server/core/ready_order_collector.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "absl/strings/str_format.h"

namespace lockstep::core {

ReadyOrderCollector::ReadyOrderCollector(const plan::Plan& plan)
    : revision_{plan.revision.value + 1},
      own_(plan.ranks.size()),
      places_(plan.parameters.size()),
      wanted_(plan.ranks.size()) {
  for (const plan::Bucket& bucket : plan.buckets) {
    const std::vector<int>& group =
        plan.communicators[bucket.communicator].ranks;
    const int lowest = *std::min_element(group.begin(), group.end());
    wanted_[lowest] = true;
    for (const plan::Slot& slot : bucket.slots) {
      places_[slot.parameter].by = lowest;
    }
  }
  for (const plan::Bucket& bucket : plan.buckets) {
    for (const int rank : plan.communicators[bucket.communicator].ranks) {
      if (!wanted_[rank]) continue;
      for (const plan::Slot& slot : bucket.slots) {
        own_[rank].push_back(slot.parameter);
      }
    }
  }
  for (auto& own : own_) std::sort(own.begin(), own.end());
  wanted_count_ =
      static_cast<int>(std::count(wanted_.begin(), wanted_.end(), true));
}

std::vector<int> ReadyOrderCollector::Unanswered() const {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < wanted_.size(); ++rank) {
    if (wanted_[rank]) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

absl::Status ReadyOrderCollector::Answer(
    int rank, const std::vector<uint32_t>& parameters) {
  if (!wanted_[rank]) return absl::OkStatus();
  std::vector<uint32_t> named = parameters;
  std::sort(named.begin(), named.end());
  if (named != own_[rank]) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "gave an order of %d parameters that are not just its own %d",
        parameters.size(), own_[rank].size()));
  }
  for (size_t at = 0; at < parameters.size(); ++at) {
    ReportedPosition& place = places_[parameters[at]];
    if (place.by == rank) place.at = static_cast<uint32_t>(at);
  }
  wanted_[rank] = false;
  wanted_count_ -= 1;
  return absl::OkStatus();
}

std::vector<uint32_t> ReadyOrderCollector::Merged() const {
  std::vector<uint32_t> order(places_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [this](uint32_t a, uint32_t b) {
    return std::tie(places_[a].at, places_[a].by) <
           std::tie(places_[b].at, places_[b].by);
  });
  return order;
}

}  // namespace lockstep::core
