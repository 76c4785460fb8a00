#include "client/transport/shm/core_sharing.h"

#include <sched.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <vector>

#include "base/cpu_affinity.h"
#include "client/transport/shm/wait_policy.h"
#include "gtest/gtest.h"
#include "tests/support/affinity_restorer.h"

namespace lockstep::transport {
namespace {

// Whether the calling thread may use these cores, and no others.
bool MayUse(const cpu_set_t& cores) {
  const std::optional<cpu_set_t> allowed = AllowedCores();
  return allowed && CPU_EQUAL(&*allowed, &cores);
}

// Three ranks of which this thread is rank 1; it runs on one core.
class CoreSharingTest : public testing::Test {
 protected:
  CoreSharingTest() { RunOn(ShareOfCores(*restorer_.cores(), 0, CPU_SETSIZE)); }

  uint32_t Here() const { return 1 + static_cast<uint32_t>(sched_getcpu()); }

  const AffinityRestorer restorer_;
  const RankMask all_ = MaskOf(0) | MaskOf(1) | MaskOf(2);
  std::atomic<uint32_t> words_[3] = {0, 0, 0};
  CoreSharing sharing_{1, {&words_[0], &words_[1], &words_[2]}};
};

TEST_F(CoreSharingTest, FindsThePeersOnItsCore) {
  EXPECT_EQ(sharing_.Publish(all_), 0u) << "no peer has published";
  EXPECT_EQ(words_[1], Here());
  words_[0] = Here();
  words_[2] = Here() + 1;
  EXPECT_EQ(sharing_.Publish(all_), MaskOf(0));
  EXPECT_EQ(sharing_.Publish(MaskOf(2)), 0u) << "it does not wait for rank 0";
  words_[2] = Here();
  EXPECT_EQ(sharing_.Publish(all_), MaskOf(0) | MaskOf(2));
}

// The words lie in memory that peers write.
TEST_F(CoreSharingTest, AnyValueOfAPeerIsHarmless) {
  for (const uint32_t word : {~0u, 1u << 31, uint32_t{CPU_SETSIZE} + 1, 0u}) {
    words_[0] = word;
    words_[2] = word;
    EXPECT_EQ(sharing_.Publish(all_), 0u);
  }
}

TEST(CostOfSleepTest, LeavesTheCoresOfTheThreadAsTheyWere) {
  const std::optional<cpu_set_t> before = AllowedCores();
  const std::chrono::nanoseconds cost = CostOfSleep();
  EXPECT_GT(cost.count(), 0);
  EXPECT_LE(cost, std::chrono::microseconds(100));
  EXPECT_TRUE(MayUse(*before));
}

}  // namespace
}  // namespace lockstep::transport
