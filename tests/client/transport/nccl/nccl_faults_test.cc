// The suite finds no error in the adapter, and every fault that is injected.

#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/transport/nccl/fault_suite.h"
#include "tests/client/transport/nccl/faults.h"
#include "tests/support/sanitizers.h"

namespace lockstep::fake {
namespace {

TEST(NcclFaultTest, FindsNothingInTheAdapter) {
  constexpr uint64_t kSeeds = kUnderSanitizer ? 3 : 10;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    EXPECT_EQ(RunFaultSuite({.seed = seed}), "") << "seed " << seed;
  }
}

void ExpectEachIsFound(const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    const std::function<bool(const std::string&)> noticed =
        testing::Matches(testing::ContainsRegex(fault.noticed));
    std::string said;
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      said = RunFaultSuite({.seed = seed,
                            .decorate = fault.decorate,
                            .patience = absl::Seconds(1),
                            .enough = noticed});
      if (!noticed(said)) continue;
      std::cout << fault.name << ": noticed with seed " << seed << "\n";
      break;
    }
    EXPECT_THAT(said, testing::ContainsRegex(fault.noticed)) << fault.name;
  }
}

TEST(NcclFaultTest, FindsEveryMistake) {
  if (kUnderSanitizer) {
    GTEST_SKIP() << "the mistakes are found without a sanitizer";
  }
  const std::vector<Fault> faults = AllFaults();
  EXPECT_GE(faults.size(), 12u);
  ExpectEachIsFound(faults);
}

TEST(NcclFaultTest, FindsEveryMistakeWithGraphs) {
  if (kUnderSanitizer) {
    GTEST_SKIP() << "the mistakes are found without a sanitizer";
  }
  ExpectEachIsFound(GraphFaults());
}

TEST(NcclFaultTest, FindsEveryMistakeWithEnds) {
  if (kUnderSanitizer) {
    GTEST_SKIP() << "the mistakes are found without a sanitizer";
  }
  ExpectEachIsFound(EndFaults());
}

TEST(NcclFaultTest, FindsEveryMistakeWithWindows) {
  if (kUnderSanitizer) {
    GTEST_SKIP() << "the mistakes are found without a sanitizer";
  }
  ExpectEachIsFound(WindowFaults());
}

}  // namespace
}  // namespace lockstep::fake
