#include "plan/pairs.h"

#include <bit>
#include <set>
#include <string>

namespace lockstep::plan {
namespace {

bool SameAbilities(const TransportFacts& a, const TransportFacts& b) {
  return a.pairs_in_one_place == b.pairs_in_one_place &&
         a.pairs_across_places == b.pairs_across_places &&
         a.pairs_in_mixed_places == b.pairs_in_mixed_places;
}

bool WhereverTheyRun(const TransportFacts& facts) {
  return facts.pairs_in_one_place && facts.pairs_across_places &&
         facts.pairs_in_mixed_places;
}

TransportFacts Assumed(const std::string& transport) {
  const std::string place = "one place";
  if (transport == "auto") {
    return {.place = place,
            .pairs_in_one_place = true,
            .pairs_across_places = true};
  }
  if (transport == "shm") return {.place = place, .pairs_in_one_place = true};
  if (transport == "gloo") {
    return {.pairs_in_one_place = true,
            .pairs_across_places = true,
            .pairs_in_mixed_places = true};
  }
  if (transport == "nccl") return {.decides_on_device = true};
  return {};
}

}  // namespace

bool SumsInPairs(const std::vector<TransportFacts>& transports,
                 const std::vector<int>& ranks) {
  if (!std::has_single_bit(ranks.size())) return false;
  for (const int rank : ranks) {
    const bool told =
        rank >= 0 && static_cast<size_t>(rank) < transports.size();
    if (!told || !SameAbilities(transports[rank], transports[ranks[0]])) {
      return false;
    }
  }
  const TransportFacts& all = transports[ranks[0]];
  if (WhereverTheyRun(all)) return true;
  std::set<std::string> places;
  for (const int rank : ranks) {
    if (transports[rank].place.empty()) return false;
    places.insert(transports[rank].place);
  }
  if (places.size() == 1) return all.pairs_in_one_place;
  return places.size() == ranks.size() ? all.pairs_across_places
                                       : all.pairs_in_mixed_places;
}

std::vector<TransportFacts> AssumedTransports(const JobSpec& spec) {
  return std::vector<TransportFacts>(spec.mesh.WorldSize(),
                                     Assumed(spec.transport));
}

}  // namespace lockstep::plan
