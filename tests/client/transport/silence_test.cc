#include "client/transport/common/silence.h"

#include "gtest/gtest.h"

namespace lockstep::transport {
namespace {

constexpr absl::Duration kBound = absl::Seconds(8);
constexpr absl::Duration kTick = absl::Seconds(1);

TEST(SilenceTest, APeerIsSilentOnceItsKeepalivesHaveStoppedForTheBound) {
  Silence silence(2, kBound);
  ASSERT_EQ(silence.period(), kTick);
  for (int tick = 0; tick < 100; ++tick) {
    silence.Tick(0, kTick, true, true);
    silence.Tick(1, kTick, tick < 50, true);
    EXPECT_FALSE(silence.IsSilent(0));
    EXPECT_EQ(silence.IsSilent(1), tick >= 57) << tick;
  }
  EXPECT_EQ(silence.quiet(1), absl::Seconds(50));
}

TEST(SilenceTest, AnyWordEndsIt) {
  Silence silence(1, kBound);
  for (int tick = 0; tick < 96; ++tick) {
    silence.Tick(0, kTick, tick % 8 == 7,
                 true);  // seven quiet ticks, then data
    EXPECT_FALSE(silence.IsSilent(0)) << tick;
  }
  silence.Tick(0, kTick, false, true);
  EXPECT_EQ(silence.quiet(0), kTick);
}

TEST(SilenceTest, APeerThatOwesNothingIsNotMissedForWhatItWasBefore) {
  Silence silence(1, kBound);
  for (int tick = 0; tick < 100; ++tick) silence.Tick(0, kTick, false, false);
  EXPECT_FALSE(silence.IsSilent(0));
  for (int tick = 0; tick < 8; ++tick) {
    EXPECT_FALSE(silence.IsSilent(0)) << tick;
    silence.Tick(0, kTick, false, true);
  }
  EXPECT_TRUE(silence.IsSilent(0));
}

// Neither after being stopped nor without a free core, for any time.
TEST(SilenceTest, AWatcherThatWasStoppedBlamesNobody) {
  for (const absl::Duration stop : {absl::Seconds(3), absl::Hours(3)}) {
    Silence silence(1, kBound);
    silence.Tick(0, kTick, true, true);
    silence.Tick(0, stop, false, true);
    EXPECT_FALSE(silence.IsSilent(0));
    EXPECT_EQ(silence.quiet(0), 2 * kTick);
    // Data that arrived in the meantime is read after the first tick.
    silence.Tick(0, kTick, true, true);
    EXPECT_EQ(silence.quiet(0), absl::ZeroDuration());
  }
}

TEST(SilenceTest, TicksFitTheBound) {
  EXPECT_EQ(Silence::PeriodOf(absl::Milliseconds(80)), absl::Milliseconds(10));
  EXPECT_EQ(Silence::PeriodOf(absl::Milliseconds(1)), absl::Milliseconds(1));
  EXPECT_EQ(Silence::PeriodOf(absl::Hours(720)), absl::Seconds(1));
}

}  // namespace
}  // namespace lockstep::transport
