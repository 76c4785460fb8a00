// The device's conversions are bit-equal to those of their host twins, aligned
// or not.

#include "kernels/device/widen.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/widen.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

constexpr size_t kCounts[] = {0, 1, 7, 8, 257, 100'003};
constexpr size_t kSkipped[] = {0, 1, 4};

// Random elements, many of them near 0.
template <class T>
std::vector<T> Elements(size_t count) {
  Rng rng(count);
  std::vector<T> row = RandomRow<T>(rng, count);
  if constexpr (std::is_integral_v<T>) {
    for (size_t i = 0; i < count; i += 2) row[i] = static_cast<T>(rng() % 3);
  }
  return row;
}

template <class T>
class DeviceWidenTest : public testing::Test {};
using NarrowTypes = testing::Types<uint8_t, int8_t, int16_t, uint16_t, Bool>;
TYPED_TEST_SUITE(DeviceWidenTest, NarrowTypes);

TYPED_TEST(DeviceWidenTest, WidensAndNarrowsToTheBitsOfItsHostTwin) {
  constexpr DType kDType = DTypeOf<TypeParam>();
  for (const size_t count : kCounts) {
    for (const size_t skipped : kSkipped) {
      const auto narrow = Elements<TypeParam>(count);
      const auto wide = Elements<int32_t>(count);
      std::vector<int32_t> widened(count);
      std::vector<TypeParam> narrowed(count);
      WidenToI32(narrow.data(), widened.data(), count, kDType);
      NarrowFromI32(wide.data(), narrowed.data(), count, kDType);
      const gpu::Row<TypeParam> from(narrow, skipped);
      const gpu::Row<int32_t> to(std::vector<int32_t>(count), skipped);
      gpu::Require(
          device::WidenToI32(from.data(), to.data(), count, kDType, nullptr),
          "WidenToI32");
      gpu::Synchronize();
      EXPECT_TRUE(SameBits(to.Values(), widened)) << count << ", " << skipped;
      const gpu::Row<int32_t> back_from(wide, skipped);
      gpu::Require(device::NarrowFromI32(back_from.data(), from.data(), count,
                                         kDType, nullptr),
                   "NarrowFromI32");
      gpu::Synchronize();
      EXPECT_TRUE(SameBits(from.Values(), narrowed))
          << count << ", " << skipped;
    }
  }
}

template <class T>
class DeviceConvertTest : public testing::Test {};
using ConvertedTypes =
    testing::Types<uint8_t, int8_t, int16_t, uint16_t, int32_t, uint32_t,
                   int64_t, uint64_t, Bool, float>;
TYPED_TEST_SUITE(DeviceConvertTest, ConvertedTypes);

TYPED_TEST(DeviceConvertTest, RoundsAndScalesToTheBitsOfItsHostTwin) {
  constexpr DType kDType = DTypeOf<TypeParam>();
  for (const size_t count : kCounts) {
    for (const size_t skipped : kSkipped) {
      const auto in = Elements<TypeParam>(count);
      std::vector<float> want(count);
      ConvertToF32(in.data(), want.data(), count, kDType);
      ScaleF32(want.data(), count, 1.0f / 3);
      const gpu::Row<TypeParam> from(in, skipped);
      const gpu::Row<float> to(std::vector<float>(count), skipped);
      gpu::Require(
          device::ConvertToF32(from.data(), to.data(), count, kDType, nullptr),
          "ConvertToF32");
      gpu::Require(device::ScaleF32(to.data(), count, 1.0f / 3, nullptr),
                   "ScaleF32");
      gpu::Synchronize();
      EXPECT_TRUE(SameBits(to.Values(), want)) << count << ", " << skipped;
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
