#include "client/transport/shm/core_sharing.h"

#include <sched.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <vector>

#include "base/cpu_affinity.h"
#include "client/transport/shm/wait_policy.h"
#include "gtest/gtest.h"

namespace lockstep::transport {
namespace {

using Clock = CoreSharing::Clock;

// Whether the calling thread may use these cores, and no others.
bool MayUse(const cpu_set_t& cores) {
  const std::optional<cpu_set_t> allowed = AllowedCores();
  return allowed && CPU_EQUAL(&*allowed, &cores);
}

// Three ranks of which this thread is one; it runs on one core.
class CoreSharingTest : public testing::Test {
 protected:
  CoreSharingTest() { RunOn(ShareOfCores(*restorer_.cores(), 0, CPU_SETSIZE)); }

  CoreSharing RankOf(int rank, int runnable = 1) {
    return CoreSharing(rank, {&words_[0], &words_[1], &words_[2]},
                       [runnable] { return runnable; });
  }
  uint32_t Here() const { return 1 + static_cast<uint32_t>(sched_getcpu()); }
  bool MayMove() const { return CPU_COUNT(&*restorer_.cores()) > 1; }

  const AffinityRestorer restorer_;
  const RankMask all_ = MaskOf(0) | MaskOf(1) | MaskOf(2);
  const Clock::time_point now_ = Clock::now();
  std::atomic<uint32_t> words_[3] = {0, 0, 0};
};

TEST_F(CoreSharingTest, FindsThePeersOnItsCore) {
  CoreSharing sharing = RankOf(1);
  EXPECT_EQ(sharing.Publish(all_), 0u) << "no peer has published";
  EXPECT_EQ(words_[1], Here());
  words_[0] = Here();
  words_[2] = Here() + 1;
  EXPECT_EQ(sharing.Publish(all_), MaskOf(0));
  EXPECT_EQ(sharing.Publish(MaskOf(2)), 0u) << "it does not wait for rank 0";
  words_[2] = Here();
  EXPECT_EQ(sharing.Publish(all_), MaskOf(0) | MaskOf(2));
}

TEST_F(CoreSharingTest, TheHigherRankMovesAndMayUseAllItsCoresAfterwards) {
  if (!MayMove()) GTEST_SKIP() << "there is one core";
  RunOn(*restorer_.cores());
  // The scheduler may move the thread back before it looks.
  bool moved = false;
  for (int i = 0; i < 20 && !moved; ++i) {
    const uint32_t before = Here();
    words_[0] = words_[1] = before;
    RankOf(1).ComeApart(MaskOf(0), now_);
    moved = Here() != before;
    EXPECT_TRUE(MayUse(*restorer_.cores()));
  }
  EXPECT_TRUE(moved);
}

TEST_F(CoreSharingTest, TheLowestRankStays) {
  RunOn(*restorer_.cores());
  int asked = 0;
  CoreSharing lowest(0, {&words_[0], &words_[1]}, [&] { return ++asked; });
  lowest.ComeApart(MaskOf(1), now_);
  lowest.ComeApart(0, now_);
  EXPECT_EQ(asked, 0);
}

TEST_F(CoreSharingTest, NobodyMovesOnABusyMachineOrTooOften) {
  int asked = 0;
  CoreSharing sharing(1, {&words_[0], &words_[1]}, [&] {
    ++asked;
    return 1 << 20;
  });
  RunOn(*restorer_.cores());
  words_[0] = words_[1] = Here();
  sharing.ComeApart(MaskOf(0), now_);
  sharing.ComeApart(MaskOf(0), now_ + CoreSharing::kPause / 2);
  EXPECT_EQ(asked, 1);
  sharing.ComeApart(MaskOf(0), now_ + CoreSharing::kPause);
  EXPECT_EQ(asked, 2);
}

TEST_F(CoreSharingTest, AThreadBoundToOneCoreStaysThere) {
  words_[0] = words_[1] = Here();
  RankOf(1).ComeApart(MaskOf(0), now_);
  EXPECT_EQ(Here(), words_[0]);
  EXPECT_TRUE(MayUse(OnlyCore(sched_getcpu())));
}

// The words lie in memory that peers write.
TEST_F(CoreSharingTest, AnyValueOfAPeerIsHarmless) {
  RunOn(*restorer_.cores());
  for (const uint32_t word : {~0u, 1u << 31, uint32_t{CPU_SETSIZE} + 1, 0u}) {
    words_[0] = word;
    words_[2] = word;
    CoreSharing sharing = RankOf(1);
    EXPECT_EQ(sharing.Publish(all_), 0u);
    sharing.ComeApart(MaskOf(0), now_);
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
