// Distinct types for names and numbers, so they cannot be confused.

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

// A worker's stable name. It outlives the worker's process.
using WorkerName = Id<struct WorkerTag, std::string>;

// The number of one incarnation of a worker: assigned and journaled by the
// coordinator, larger for each new incarnation. 0: not assigned yet.
using Generation = Id<struct GenerationTag, uint64_t>;

// One immutable membership of a job. Strictly increasing; 0 is "none yet".
using EpochId = Id<struct EpochTag, uint64_t>;

// A version of the plan within an epoch; the first is 1.
using Revision = Id<struct RevisionTag, uint64_t>;

// The term of the leader that sent a message: workers refuse a term lower than
// the highest they have received.
using LeaderTerm = Id<struct LeaderTag, uint64_t>;

// The natural order of names: runs of digits compare as numbers, so worker-2 is
// before worker-10. Total: equal only for equal strings.
bool NaturalLess(const std::string& a, const std::string& b);

}  // namespace lockstep

#endif  // LOCKSTEP_PROTOCOL_IDS_H_
