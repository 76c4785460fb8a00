// The address of this host that others reach.

#ifndef LOCKSTEP_TOOLS_LAUNCH_OWN_ADDRESS_H_
#define LOCKSTEP_TOOLS_LAUNCH_OWN_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"

namespace lockstep::launch {

// The numeric address from which this host reaches the first of `addresses`
// (HOST:PORT, comma separated): what the routing table says; nothing is sent.
// Unavailable if HOST has no address, or no route leads there.
absl::StatusOr<std::string> OwnAddressTowards(const std::string& addresses);

}  // namespace lockstep::launch

#endif  // LOCKSTEP_TOOLS_LAUNCH_OWN_ADDRESS_H_
