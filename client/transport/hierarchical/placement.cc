#include "client/transport/hierarchical/placement.h"

#include <algorithm>
#include <map>

namespace lockstep::transport {

Placement::Placement(const std::vector<std::string>& hosts) {
  std::map<std::string, int> known;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto [at, first] =
        known.try_emplace(hosts[rank], static_cast<int>(known.size()));
    if (first) members_.emplace_back();
    std::vector<int>& members = members_[at->second];
    hosts_of_.push_back({at->second, static_cast<int>(members.size())});
    members.push_back(static_cast<int>(rank));
  }
  const auto [least, most] = std::minmax_element(
      members_.begin(), members_.end(),
      [](const auto& a, const auto& b) { return a.size() < b.size(); });
  lines_ = static_cast<int>(least->size());
  most_ = static_cast<int>(most->size());
}

}  // namespace lockstep::transport
