// What a worker's transport can do, told with its registration, before a plan
// is compiled. The plan takes an operation only where these facts allow it
// (plan/pairs.h).

#ifndef LOCKSTEP_PROTOCOL_TRANSPORT_FACTS_H_
#define LOCKSTEP_PROTOCOL_TRANSPORT_FACTS_H_

#include <string>

namespace lockstep {

// The default value says that nothing is known, and allows nothing.
struct TransportFacts {
  // Where the worker runs, as its transport compares it: how a group is
  // connected depends only on which of its ranks have equal places. Empty: not
  // known.
  std::string place;

  // Does a group of the transport sum in pairs (TransferKind::kAllReducePairs),
  // if its ranks are a power of two, and
  bool pairs_in_one_place = false;     // all have one place
  bool pairs_across_places = false;    // each has a place of its own
  bool pairs_in_mixed_places = false;  // some share a place, others do not

  bool operator==(const TransportFacts&) const = default;
};

}  // namespace lockstep

#endif  // LOCKSTEP_PROTOCOL_TRANSPORT_FACTS_H_
