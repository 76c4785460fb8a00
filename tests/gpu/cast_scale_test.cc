// The device's cast and scale is bit-equal to its host reference.

#include "kernels/device/cast_scale.h"

#include "gtest/gtest.h"
#include "kernels/cast_scale.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

template <class From, class To>
void ExpectTwins(size_t count, size_t skipped, double factor) {
  Rng rng(count * 31 + skipped);
  const std::vector<From> src = RandomRow<From>(rng, count);
  std::vector<To> want(count);
  CastScale(src.data(), DTypeOf<From>(), factor, want.data(), DTypeOf<To>(),
            count);
  const gpu::Row<From> from(src, skipped);
  const gpu::Row<To> to(std::vector<To>(count), skipped);
  gpu::Require(device::CastScale(from.data(), DTypeOf<From>(), factor,
                                 to.data(), DTypeOf<To>(), count, nullptr),
               "CastScale");
  gpu::Synchronize();
  EXPECT_TRUE(SameBits(to.Values(), want))
      << count << " elements, " << skipped << " skipped, times " << factor;
}

template <class From>
class DeviceCastScaleTest : public testing::Test {};
TYPED_TEST_SUITE(DeviceCastScaleTest, FloatTypes);

TYPED_TEST(DeviceCastScaleTest, GivesTheBitsOfItsHostTwin) {
  for (const size_t count : {0, 1, 7, 8, 255, 256, 257, 100'003}) {
    for (const size_t skipped : {0, 1, 8}) {
      for (const double factor : {1.0, 1.0 / 3, 65536.0}) {
        ExpectTwins<TypeParam, F16>(count, skipped, factor);
        ExpectTwins<TypeParam, BF16>(count, skipped, factor);
        ExpectTwins<TypeParam, float>(count, skipped, factor);
        ExpectTwins<TypeParam, double>(count, skipped, factor);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
