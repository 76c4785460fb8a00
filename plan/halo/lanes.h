// The transfers of halo exchanges.

#ifndef LOCKSTEP_PLAN_HALO_LANES_H_
#define LOCKSTEP_PLAN_HALO_LANES_H_

#include <string>
#include <vector>

#include "plan/ir.h"

namespace lockstep::plan {

// Which of the two groups of an exchange.
enum class HaloPass { kForward, kAdjoint };

// The number of the group, and the tag of its messages.
constexpr int GroupOf(int halo, HaloPass pass) {
  return 2 * halo + (pass == HaloPass::kForward ? 1 : 2);
}

// The lane of a communicator: "halo lat@0".
std::string HaloLaneName(const CommunicatorSpec& communicator);

// The messages of both passes, as transfers: in each pass first those that the
// rank sends. None if it exchanges none.
std::vector<Transfer> HaloTransfers(const Plan& plan, const HaloRoutes& routes);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_HALO_LANES_H_
