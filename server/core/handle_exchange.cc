#include "server/core/handle_exchange.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "protocol/chunks.h"

namespace lockstep::core {

HandleExchange::HandleExchange(const plan::Plan& plan)
    : places_of_rank_(plan.mesh.WorldSize()),
      missing_of_rank_(plan.mesh.WorldSize(), 0),
      missing_(static_cast<int>(plan.communicators.size())) {
  for (int c = 0; c < missing_; ++c) {
    const std::vector<int>& ranks = plan.communicators[c].ranks;
    exchanges_.push_back({.ranks = ranks,
                          .handles = std::vector<std::string>(ranks.size()),
                          .given = std::vector<bool>(ranks.size(), false),
                          .missing = static_cast<int>(ranks.size())});
    for (size_t position = 0; position < ranks.size(); ++position) {
      places_of_rank_[ranks[position]].push_back(
          {c, static_cast<int>(position)});
      ++missing_of_rank_[ranks[position]];
    }
  }
}

const HandleExchange::MemberPosition* HandleExchange::PlaceOf(
    int rank, int communicator) const {
  const std::vector<MemberPosition>& places = places_of_rank_[rank];
  const auto place =
      std::lower_bound(places.begin(), places.end(), communicator,
                       [](const MemberPosition& place, int c) {
                         return place.communicator < c;
                       });
  if (place == places.end() || place->communicator != communicator) {
    return nullptr;
  }
  return &*place;
}

absl::StatusOr<std::vector<int>> HandleExchange::Publish(
    int rank, const std::vector<protocol::GroupHandle>& handles) {
  for (const protocol::GroupHandle& handle : handles) {
    if (PlaceOf(rank, handle.communicator) == nullptr) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "published a handle of communicator %d, which it is no member of",
          handle.communicator));
    }
  }
  std::vector<int> completed;
  for (const protocol::GroupHandle& handle : handles) {
    const int position = PlaceOf(rank, handle.communicator)->position;
    GroupExchange& exchange = exchanges_[handle.communicator];
    if (exchange.missing == 0) continue;
    exchange.handles[position] = handle.handle;
    if (exchange.given[position]) continue;
    exchange.given[position] = true;
    --missing_of_rank_[rank];
    if (--exchange.missing > 0) continue;
    exchange.pieces = protocol::CutIntoPieces(handle.communicator,
                                              std::move(exchange.handles));
    --missing_;
    completed.push_back(handle.communicator);
  }
  return completed;
}

std::vector<int> HandleExchange::CompleteOf(int rank) const {
  std::vector<int> complete;
  for (const MemberPosition& place : places_of_rank_[rank]) {
    if (exchanges_[place.communicator].missing == 0) {
      complete.push_back(place.communicator);
    }
  }
  return complete;
}

}  // namespace lockstep::core
