#include "kernels/loss_scale.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/step_gate.h"

namespace lockstep::kernels {
namespace {

TEST(LossScaleTest, BacksOffAtOnceAndGrowsAfterTheInterval) {
  const LossScaleRule rule{.growth_interval = 3};
  LossScale scale{.scale = 64};
  std::vector<float> scales;
  for (const bool finite :
       {true, true, true, true, false, true, true, true, false, false}) {
    scale = NextLossScale(rule, scale, finite);
    scales.push_back(scale.scale);
  }
  EXPECT_EQ(scales,
            (std::vector<float>{64, 64, 128, 128, 64, 64, 64, 128, 64, 32}));
  EXPECT_EQ(scale.steps_without_overflow, 0u);
}

TEST(LossScaleTest, StaysBetweenItsBounds) {
  const LossScaleRule rule{.growth_factor = 10,
                           .backoff_factor = 0.01,
                           .growth_interval = 1,
                           .scale_min = 3,
                           .scale_max = 500};
  LossScale scale{.scale = 80};
  scale = NextLossScale(rule, scale, true);
  EXPECT_EQ(scale.scale, 500);
  scale = NextLossScale(rule, scale, false);
  EXPECT_EQ(scale.scale, 5);
  scale = NextLossScale(rule, scale, false);
  EXPECT_EQ(scale.scale, 3);
  // The product is not a number of f32.
  const LossScaleRule large{
      .growth_factor = 1e300, .growth_interval = 1, .scale_max = 3e38F};
  EXPECT_EQ(NextLossScale(large, {.scale = 1e30F}, true).scale, 3e38F);
}

// The count may be that of a job with a longer interval.
TEST(LossScaleTest, ACountBeyondTheIntervalGrows) {
  const LossScaleRule rule{.growth_interval = 5};
  for (const uint32_t count : {4u, 5u, 1000u, 0xffffffffu}) {
    const LossScale next = NextLossScale(
        rule, {.scale = 8, .steps_without_overflow = count}, true);
    EXPECT_EQ(next, (LossScale{.scale = 16})) << count;
  }
}

// An independent model: the number of growths and backoffs, whose product is
// exact for powers of two.
TEST(LossScaleTest, IsTheProductOfItsGrowthsAndBackoffs) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const int interval = 1 + static_cast<int>(random() % 6);
    const LossScaleRule rule{.growth_factor = 4,
                             .backoff_factor = 0.5,
                             .growth_interval = static_cast<uint64_t>(interval),
                             .scale_min = std::ldexp(1.0F, -20),
                             .scale_max = std::ldexp(1.0F, 20)};
    LossScale scale{.scale = 1};
    int exponent = 0;
    int finite_in_a_row = 0;
    for (int step = 0; step < 300; ++step) {
      const bool finite = random() % 5 != 0;
      scale = NextLossScale(rule, scale, finite);
      finite_in_a_row = finite ? finite_in_a_row + 1 : 0;
      if (!finite) exponent = std::max(exponent - 1, -20);
      if (finite && finite_in_a_row % interval == 0) {
        exponent = std::min(exponent + 2, 20);
      }
      ASSERT_EQ(scale.scale, std::ldexp(1.0F, exponent)) << "seed " << seed;
      ASSERT_EQ(static_cast<int>(scale.steps_without_overflow),
                finite_in_a_row % interval);
    }
  }
}

TEST(LossScaleTest, ARecordHoldsAllOfIt) {
  for (const LossScale& scale :
       {LossScale{}, LossScale{.scale = 0.1F, .steps_without_overflow = 7},
        LossScale{.scale = 3e38F, .steps_without_overflow = 0xffffffffu}}) {
    const StepRecord record{.loss_scale = PackLossScale(scale)};
    EXPECT_EQ(LossScaleOf(record), scale);
    EXPECT_NE(record.loss_scale, 0u);
  }
}

}  // namespace
}  // namespace lockstep::kernels
