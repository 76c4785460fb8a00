// The device's flags are bit-equal to the host reference's, for any number.

#include "kernels/device/flags.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/flags.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

template <class T>
class DeviceFlagsTest : public testing::Test {};
TYPED_TEST_SUITE(DeviceFlagsTest, FloatTypes);

TYPED_TEST(DeviceFlagsTest, GiveTheBitsOfTheirTwin) {
  Rng rng(3);
  for (const size_t count : {0, 1, 8, 9, 1024, 3000}) {
    std::vector<uint8_t> on(count);
    for (uint8_t& one : on) one = static_cast<uint8_t>(rng() % 3);
    std::vector<TypeParam> want = RandomRow<TypeParam>(rng, count + 2);
    const gpu::Row<TypeParam> flags(want, 1);
    WriteFlags(on, DTypeOf<TypeParam>(), want.data());
    gpu::Require(
        device::WriteFlags(on, DTypeOf<TypeParam>(), flags.data(), nullptr),
        "WriteFlags");
    gpu::Synchronize();
    EXPECT_TRUE(SameBits(flags.Values(), want)) << count << " flags";
  }
}

}  // namespace
}  // namespace lockstep::kernels
