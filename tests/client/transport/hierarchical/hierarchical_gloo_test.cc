// Runs the conformance suite on groups over several hosts, with Gloo between
// them.

#include <memory>
#include <vector>

#include "client/transport/gloo/gloo.h"
#include "gtest/gtest.h"
#include "tests/client/transport/hierarchical/pretended_hosts.h"
#include "tests/conformance/communicator_conformance.h"

namespace lockstep {
namespace {

INSTANTIATE_TEST_SUITE_P(HierarchicalGloo, CommunicatorConformance,
                         testing::Values(conformance::Case{
                             [] {
                               return std::make_unique<PretendedHosts>(
                                   "aabb", [] {
                                     return *transport::MakeGlooLinks({});
                                   });
                             },
                             4,
                             {.sums_in_pairs = false}}),
                         conformance::CaseName);

}  // namespace
}  // namespace lockstep
