#include "tests/sim/data_plane.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::sim {

void DataPlane::Post(const std::string& group, int size, int member,
                     uint64_t sequence, Offer offer, Schedule schedule,
                     Done done) {
  Operation& operation = operations_[{group, sequence}];
  operation.offers.resize(size);
  Check(!operation.offers[member], "a rank posts an operation twice");
  operation.offers[member] = std::move(offer);
  operation.waiters.push_back({std::move(schedule), std::move(done)});
  const bool all = std::all_of(operation.offers.begin(), operation.offers.end(),
                               [](const auto& o) { return o.has_value(); });
  if (!all || broken_.count(group) > 0) return;
  ++completed_;
  const auto offers = std::make_shared<Offers>();
  for (auto& each : operation.offers) offers->push_back(*each);
  for (Waiter& waiter : operation.waiters) {
    waiter.schedule([done = std::move(waiter.done), offers] { done(*offers); });
  }
  operation.waiters.clear();
}

void DataPlane::Break(uint64_t process, uint64_t other) {
  for (const auto& [name, operation] : operations_) {
    const auto has = [&, &offers = operation.offers](uint64_t member) {
      return std::any_of(offers.begin(), offers.end(), [&](const auto& offer) {
        return offer && offer->process == member;
      });
    };
    if (name.second == 0 && has(process) && has(other)) {
      broken_.insert(name.first);
    }
  }
}

std::vector<const Offer*> DataPlane::Posted(const std::string& group,
                                            uint64_t sequence) const {
  std::vector<const Offer*> posted;
  const auto found = operations_.find({group, sequence});
  if (found == operations_.end()) return posted;
  for (const auto& offer : found->second.offers) {
    if (offer) posted.push_back(&*offer);
  }
  return posted;
}

}  // namespace lockstep::sim
