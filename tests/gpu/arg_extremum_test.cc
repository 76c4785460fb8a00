// The device's marks are equal to those of its host twin, aligned or not.

#include "kernels/device/arg_extremum.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/arg_extremum.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

template <class T>
class DeviceMarkExtremumTest : public testing::Test {};
TYPED_TEST_SUITE(DeviceMarkExtremumTest, OrderedTypes);

TYPED_TEST(DeviceMarkExtremumTest, GivesTheMarksOfItsHostTwin) {
  constexpr DType kDType = DTypeOf<TypeParam>();
  for (const size_t count : {0, 1, 7, 8, 257, 100'003}) {
    for (const size_t skipped : {0, 1, 4}) {
      Rng rng(count * 31 + skipped);
      const auto values = RandomRow<TypeParam>(rng, count);
      auto extrema = RandomRow<TypeParam>(rng, count);
      for (size_t i = 0; i < count; i += 2) extrema[i] = values[i];
      std::vector<int32_t> want(count);
      MarkExtremum(values.data(), extrema.data(), want.data(), count, kDType,
                   5);
      const gpu::Row<TypeParam> value(values, skipped);
      const gpu::Row<TypeParam> extremum(extrema, skipped);
      const gpu::Row<int32_t> mark(std::vector<int32_t>(count), skipped);
      gpu::Require(device::MarkExtremum(value.data(), extremum.data(),
                                        mark.data(), count, kDType, 5, nullptr),
                   "MarkExtremum");
      gpu::Synchronize();
      EXPECT_TRUE(SameBits(mark.Values(), want))
          << count << " elements, " << skipped << " skipped";
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
