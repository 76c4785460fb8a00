#include "client/session/passes.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace lockstep::session {

void Passes::Announce(const protocol::Announce& announce) {
  announced_ = true;
  announce_ = announce;
  submitted_ = {.pass = announce.pass};
  std::vector<protocol::Decision>& held = held_.decisions;
  const auto kept = std::find_if(held.begin(), held.end(),
                                 [&](const protocol::Decision& decision) {
                                   return decision.pass + 1 >= announce.pass;
                                 });
  held_.first += kept - held.begin();
  held.erase(held.begin(), kept);
}

void Passes::Submit(const protocol::Submitted& submitted) {
  submitted_.parameters.insert(submitted_.parameters.end(),
                               submitted.parameters.begin(),
                               submitted.parameters.end());
}

absl::StatusOr<std::vector<protocol::Decision>> Passes::Receive(
    const protocol::Decide& decide) {
  std::vector<protocol::Decision> news;
  const uint64_t known = held_.first + held_.decisions.size();
  if (decide.first > known) {
    return absl::OutOfRangeError(absl::StrFormat(
        "decisions %d to %d were not heard", known, decide.first - 1));
  }
  for (size_t i = 0; i < decide.decisions.size(); ++i) {
    const uint64_t number = decide.first + i;
    if (number >= known) {
      news.push_back(decide.decisions[i]);
      continue;
    }
    const bool forgotten = number < held_.first;
    if (forgotten ||
        held_.decisions[number - held_.first] == decide.decisions[i]) {
      continue;
    }
    return absl::InternalError(absl::StrFormat(
        "decision %d of the epoch was heard as another before", number));
  }
  held_.decisions.insert(held_.decisions.end(), news.begin(), news.end());
  return news;
}

std::vector<protocol::ToCoordinatorBody> Passes::Restate() const {
  std::vector<protocol::ToCoordinatorBody> words = {held_};
  if (announced_) words.push_back(announce_);
  if (!submitted_.parameters.empty()) words.push_back(submitted_);
  return words;
}

}  // namespace lockstep::session
