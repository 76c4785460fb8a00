#include "client/session/recovery_part.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::session {
namespace {

// Ranks 0 and 2 hold the state after `steps` steps.
protocol::RecoveryDecision HeldAfter(uint64_t steps) {
  return {.steps = steps, .verdict = "", .holders = {0, 2}};
}

TEST(RecoveryPartTest, AHolderReplaysOrRollsForward) {
  EXPECT_EQ(PartOf(HeldAfter(4), 0, 4), RecoveryPart::kReplay);
  EXPECT_EQ(PartOf(HeldAfter(4), 2, 3), RecoveryPart::kRollForward);
  EXPECT_EQ(PartOf(HeldAfter(0), 2, 0), RecoveryPart::kReplay);
}

TEST(RecoveryPartTest, AnotherIsANewcomer) {
  EXPECT_EQ(PartOf(HeldAfter(4), 1, 4), RecoveryPart::kNewcomer);
  EXPECT_EQ(PartOf(HeldAfter(4), 1, 5), RecoveryPart::kNewcomer);
  EXPECT_EQ(PartOf(HeldAfter(0), 1, 0), RecoveryPart::kNewcomer);
}

// The state of its program is no longer the one before the first step.
TEST(RecoveryPartTest, OneThatPassedAStepOfAJobThatBeginsAnewStartsAgain) {
  EXPECT_EQ(PartOf(HeldAfter(0), 1, 1), RecoveryPart::kStartAgain);
}

TEST(HoldsStateAtTest, WhoeverBeganWithItOrReceivedItOrTrained) {
  const std::vector<uint32_t> holders = {0, 2};
  EpochBeginning began{.holders = holders, .rank = 1, .first_step = 4};
  EXPECT_FALSE(HoldsStateAt(4, began));
  EXPECT_TRUE(HoldsStateAt(5, began));
  began.loaded = true;
  EXPECT_TRUE(HoldsStateAt(4, began));
  began.loaded = false;
  began.rank = 2;
  EXPECT_TRUE(HoldsStateAt(4, began));
  began.fits = false;
  EXPECT_FALSE(HoldsStateAt(4, began));
}

}  // namespace
}  // namespace lockstep::session
