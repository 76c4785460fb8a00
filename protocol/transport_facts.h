// The abilities of a worker's transport, sent with its registration, before a
// plan is compiled. The plan uses an operation only if these facts allow it
// (plan/pairs.h).

#ifndef LOCKSTEP_PROTOCOL_TRANSPORT_FACTS_H_
#define LOCKSTEP_PROTOCOL_TRANSPORT_FACTS_H_

#include <string>

namespace lockstep {

// By default nothing is known, and nothing is allowed.
struct TransportFacts {
  // The worker's location as its transport compares it: the connection of a
  // group depends only on which of its ranks have equal places. Empty: unknown.
  std::string place;

  // Whether a group of the transport can reduce in pairs
  // (TransferKind::kAllReducePairs) if the number of its ranks is a power of
  // two, and
  bool pairs_in_one_place = false;     // all have one place
  bool pairs_across_places = false;    // each has a different place
  bool pairs_in_mixed_places = false;  // some share a place, others do not

  // Whether its device decides if a step commits (plan/records.h).
  bool decides_on_device = false;

  bool operator==(const TransportFacts&) const = default;
};

}  // namespace lockstep

#endif  // LOCKSTEP_PROTOCOL_TRANSPORT_FACTS_H_
