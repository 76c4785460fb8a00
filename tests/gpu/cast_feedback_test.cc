// The device's cast with error feedback is bit-equal to its host reference.

#include "kernels/device/cast_feedback.h"

#include "gtest/gtest.h"
#include "kernels/cast_feedback.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

template <class From, class To>
void ExpectTwins(size_t count, size_t skipped) {
  Rng rng(count * 31 + skipped);
  const std::vector<From> src = RandomRow<From>(rng, count);
  const std::vector<From> residual = RandomRow<From>(rng, count);
  std::vector<To> want(count);
  std::vector<From> want_next(count);
  CastFeedback(src.data(), residual.data(), DTypeOf<From>(), want.data(),
               DTypeOf<To>(), want_next.data(), count);
  const gpu::Row<From> from(src, skipped);
  const gpu::Row<From> before(residual, skipped);
  const gpu::Row<To> to(std::vector<To>(count), skipped);
  const gpu::Row<From> next(std::vector<From>(count), skipped);
  gpu::Require(device::CastFeedback(from.data(), before.data(), DTypeOf<From>(),
                                    to.data(), DTypeOf<To>(), next.data(),
                                    count, nullptr),
               "CastFeedback");
  gpu::Synchronize();
  EXPECT_TRUE(SameBits(to.Values(), want))
      << count << " elements, " << skipped << " skipped";
  EXPECT_TRUE(SameBits(next.Values(), want_next))
      << count << " elements, " << skipped << " skipped";
}

TEST(DeviceCastFeedbackTest, GivesTheBitsOfItsHostTwin) {
  for (const size_t count : {0, 1, 255, 256, 257, 100'003}) {
    for (const size_t skipped : {0, 1}) {
      ExpectTwins<float, BF16>(count, skipped);
      ExpectTwins<float, F16>(count, skipped);
      ExpectTwins<double, BF16>(count, skipped);
      ExpectTwins<double, F16>(count, skipped);
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
