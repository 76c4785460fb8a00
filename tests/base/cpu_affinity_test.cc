#include "base/cpu_affinity.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/affinity_restorer.h"

namespace lockstep {
namespace {

using testing::ElementsAre;

cpu_set_t SetOf(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) CPU_SET(core, &set);
  return set;
}

std::vector<int> CoresOf(const cpu_set_t& set) {
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

TEST(ShareOfCoresTest, SharesAreConsecutiveAndMakeUpAllCores) {
  const cpu_set_t five = SetOf({1, 2, 5, 8, 9});
  EXPECT_THAT(CoresOf(ShareOfCores(five, 0, 2)), ElementsAre(1, 2));
  EXPECT_THAT(CoresOf(ShareOfCores(five, 1, 2)), ElementsAre(5, 8, 9));
  EXPECT_THAT(CoresOf(ShareOfCores(five, 0, 1)), ElementsAre(1, 2, 5, 8, 9));
  for (int processes = 1; processes <= 5; ++processes) {
    std::vector<int> all;
    for (int index = 0; index < processes; ++index) {
      const std::vector<int> share =
          CoresOf(ShareOfCores(five, index, processes));
      EXPECT_GE(share.size(), size_t(5 / processes));
      EXPECT_LE(share.size(), size_t(5 / processes + 1));
      all.insert(all.end(), share.begin(), share.end());
    }
    EXPECT_THAT(all, ElementsAre(1, 2, 5, 8, 9)) << processes;
  }
}

TEST(ShareOfCoresTest, MoreProcessesThanCoresUseThemInTurn) {
  const cpu_set_t two = SetOf({3, 7});
  EXPECT_THAT(CoresOf(ShareOfCores(two, 0, 3)), ElementsAre(3));
  EXPECT_THAT(CoresOf(ShareOfCores(two, 1, 3)), ElementsAre(7));
  EXPECT_THAT(CoresOf(ShareOfCores(two, 2, 3)), ElementsAre(3));
}

TEST(CpuAffinityTest, TheCoresOfAThreadAreRestored) {
  const std::optional<cpu_set_t> before = AllowedCores();
  ASSERT_TRUE(before.has_value());
  {
    const AffinityRestorer restorer;
    const cpu_set_t one = ShareOfCores(*before, 0, CPU_SETSIZE);
    ASSERT_TRUE(RunOn(one));
    EXPECT_EQ(CoresOf(*AllowedCores()), CoresOf(one));
  }
  EXPECT_EQ(CoresOf(*AllowedCores()), CoresOf(*before));
}

TEST(CpuAffinityTest, NoCoresAreRefused) { EXPECT_FALSE(RunOn(SetOf({}))); }

}  // namespace
}  // namespace lockstep
