// The address at which other hosts reach this host.

#ifndef LOCKSTEP_TOOLS_LAUNCH_OWN_ADDRESS_H_
#define LOCKSTEP_TOOLS_LAUNCH_OWN_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"

namespace lockstep::launch {

// The numeric source address for connections to the first of `addresses`
// (HOST:PORT, comma separated), from the routing table; sends nothing.
// Unavailable if HOST has no address or no route.
absl::StatusOr<std::string> OwnAddressTowards(const std::string& addresses);

}  // namespace lockstep::launch

#endif  // LOCKSTEP_TOOLS_LAUNCH_OWN_ADDRESS_H_
