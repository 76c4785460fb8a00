// Compiled exchanges, run on cells, give what one process gets that pads the
// whole field (run_halos.h).

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "plan/compile.h"
#include "plan/verify/verify.h"
#include "tests/plan/halo/random_halos.h"
#include "tests/plan/halo/run_halos.h"
#include "tests/support/sanitizers.h"

namespace lockstep::plan {
namespace {

// How many of the cases have what they are meant to have.
struct Coverage {
  std::map<std::string, int> of;

  void Count(const Plan& plan) {
    for (const Halo& halo : plan.halos) {
      Add("several ranks", halo.ranks.size() > 1);
      Add("one rank", halo.ranks.size() == 1);
      Add("three axes", halo.mesh.axes.size() == 3);
      Add("several tensors", halo.fields.size() > 1);
      for (const HaloField& field : halo.fields) CountField(halo, field);
    }
    for (const RankPlan& rank : plan.ranks) {
      for (const HaloRoutes& routes : rank.halos) {
        Add("fills", !routes.fills.empty());
        Add("three messages", routes.receives.size() > 2);
        Add("no message", routes.receives.empty());
      }
    }
  }

  void CountField(const Halo& halo, const HaloField& field) {
    size_t cut = 0;
    Add("four dimensions", field.dims.size() == 4);
    for (const HaloExtent& extent : field.dims) {
      cut += extent.axis >= 0 ? 1 : 0;
      const int64_t size = extent.bounds.back();
      const std::string edge(Name(extent.edge));
      Add("wider than the field, " + edge,
          std::max(extent.low, extent.high) > size);
      for (size_t b = 0; b + 1 < extent.bounds.size(); ++b) {
        const int64_t block = extent.bounds[b + 1] - extent.bounds[b];
        Add("wider than a block, " + edge,
            extent.axis >= 0 && std::min(extent.low, size) > block);
        Add("a block of 1", block == 1);
      }
    }
    Add("an axis that does not cut", cut < halo.mesh.axes.size());
  }

  void Add(const std::string& what, bool is) { of[what] += is ? 1 : 0; }
};

TEST(HaloExchangeTest, GivesEachRankItsPartOfThePaddedField) {
  Coverage coverage;
  const uint64_t seeds = kUnderSanitizer ? 400 : 4'000;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const absl::StatusOr<Plan> plan = Compile(RandomHalos(seed).Input());
    ASSERT_TRUE(plan.ok()) << "seed " << seed << ": " << plan.status();
    const std::optional<std::string> fault = oracle::HaloFaultIn(*plan, seed);
    ASSERT_EQ(fault, std::nullopt) << "seed " << seed;
    ASSERT_EQ(Verify(*plan), absl::OkStatus()) << "seed " << seed;
    coverage.Count(*plan);
  }
  coverage.of.erase("wider than the field, reflect");  // refused
  for (const auto& [what, count] : coverage.of) {
    EXPECT_GT(count, static_cast<int>(seeds) / 100) << what;
  }
}

}  // namespace
}  // namespace lockstep::plan
