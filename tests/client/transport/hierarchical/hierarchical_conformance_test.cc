// Runs the conformance suite on groups over several hosts: with private buffers
// and in the arena, with equal and unequal hosts, with hosts whose ranks are
// consecutive, which keeps the rank order, and with interleaved ranks.

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/client/transport/hierarchical/pretended_hosts.h"
#include "tests/conformance/communicator_conformance.h"
#include "tests/support/arena_communicator.h"
#include "tests/support/sanitizers.h"

namespace lockstep {
namespace {

using conformance::Case;

std::vector<Case> CasesOf(const std::vector<std::string>& placements,
                          bool in_arena, bool rank_order) {
  std::vector<Case> cases;
  for (const std::string& hosts : placements) {
    if (kUnderSanitizer && hosts.size() > 4) continue;
    const auto make = [=] {
      return std::make_unique<PretendedHostsInProcess>(
          hosts, in_arena ? MakeArenaTransport : nullptr);
    };
    cases.push_back({make,
                     static_cast<int>(hosts.size()),
                     {.rank_order = rank_order, .sums_in_pairs = false}});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(HierarchicalPrivate, CommunicatorConformance,
                         testing::ValuesIn(CasesOf({"aab", "aabb"},
                                                   /*in_arena=*/false,
                                                   /*rank_order=*/true)),
                         conformance::CaseName);

INSTANTIATE_TEST_SUITE_P(HierarchicalArena, CommunicatorConformance,
                         testing::ValuesIn(CasesOf({"abb", "aaabbbcc"},
                                                   /*in_arena=*/true,
                                                   /*rank_order=*/true)),
                         conformance::CaseName);

INSTANTIATE_TEST_SUITE_P(HierarchicalScattered, CommunicatorConformance,
                         testing::ValuesIn(CasesOf({"abba"},
                                                   /*in_arena=*/true,
                                                   /*rank_order=*/false)),
                         conformance::CaseName);

}  // namespace
}  // namespace lockstep
