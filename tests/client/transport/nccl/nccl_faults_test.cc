// The suite finds no error in the adapter, and every fault that is injected.

#include <functional>
#include <iostream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/transport/nccl/fault_suite.h"
#include "tests/client/transport/nccl/faults.h"
#include "tests/support/case_name.h"
#include "tests/support/sanitizers.h"

namespace lockstep::fake {
namespace {

TEST(NcclFaultTest, FindsNothingInTheAdapter) {
  constexpr uint64_t kSeeds = kUnderSanitizer ? 3 : 10;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    EXPECT_EQ(RunFaultSuite({.seed = seed}), "") << "seed " << seed;
  }
}

class NcclMistakeTest : public testing::TestWithParam<Fault> {};

TEST_P(NcclMistakeTest, IsNoticed) {
  if (kUnderSanitizer) {
    GTEST_SKIP() << "the mistakes are found without a sanitizer";
  }
  const Fault& fault = GetParam();
  const std::function<bool(const std::string&)> noticed =
      testing::Matches(testing::ContainsRegex(fault.noticed));
  std::string said;
  for (uint64_t seed = 1; seed <= 20 && !noticed(said); ++seed) {
    said = RunFaultSuite({.seed = seed,
                          .decorate = fault.decorate,
                          .patience = absl::Seconds(1),
                          .enough = noticed});
    if (noticed(said)) std::cout << "noticed with seed " << seed << "\n";
  }
  EXPECT_THAT(said, testing::ContainsRegex(fault.noticed));
}

std::string NameOf(const testing::TestParamInfo<Fault>& info) {
  return CaseName(info.param.name);
}

INSTANTIATE_TEST_SUITE_P(Adapter, NcclMistakeTest,
                         testing::ValuesIn(AllFaults()), NameOf);
INSTANTIATE_TEST_SUITE_P(Graphs, NcclMistakeTest,
                         testing::ValuesIn(GraphFaults()), NameOf);
INSTANTIATE_TEST_SUITE_P(Ends, NcclMistakeTest, testing::ValuesIn(EndFaults()),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Windows, NcclMistakeTest,
                         testing::ValuesIn(WindowFaults()), NameOf);

}  // namespace
}  // namespace lockstep::fake
