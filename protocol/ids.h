// Names and numbers that cannot be mistaken for one another.

#ifndef LOCKSTEP_PROTOCOL_IDS_H_
#define LOCKSTEP_PROTOCOL_IDS_H_

#include <compare>
#include <cstdint>
#include <string>

namespace lockstep {

template <typename Tag, typename Rep>
struct Id {
  Rep value{};
  auto operator<=>(const Id&) const = default;
};

using JobName = Id<struct JobTag, std::string>;

// A worker's stable name. It outlives the process that bears it.
using WorkerName = Id<struct WorkerTag, std::string>;

// One life of a worker: assigned and journaled by the coordinator, larger at
// each new life. 0 is nobody's: a newcomer that asks for one.
using Generation = Id<struct GenerationTag, uint64_t>;

// One immutable membership of a job. Strictly increasing; 0 is "none yet".
using EpochId = Id<struct EpochTag, uint64_t>;

// A version of the plan within an epoch; the first is 1.
using Revision = Id<struct RevisionTag, uint64_t>;

// Which leader speaks: workers refuse a lower one than they have heard.
using LeaderTerm = Id<struct LeaderTag, uint64_t>;

// The order of names that people expect: runs of digits compare as numbers, so
// worker-2 comes before worker-10. Total: equal only for equal strings.
bool NaturalLess(const std::string& a, const std::string& b);

}  // namespace lockstep

#endif  // LOCKSTEP_PROTOCOL_IDS_H_
