// The device's quotients are bit-equal to those of their host twin, aligned or
// not, in place or not.

#include "kernels/device/divide.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/divide.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

template <class T>
class DeviceDivideTest : public testing::Test {};
using DividedOnDevice = testing::Types<F16, BF16, float, double, F8E4M3, F8E5M2,
                                       Complex<float>, Complex<double>>;
TYPED_TEST_SUITE(DeviceDivideTest, DividedOnDevice);

TYPED_TEST(DeviceDivideTest, GivesTheBitsOfItsHostTwin) {
  constexpr DType kDType = DTypeOf<TypeParam>();
  for (const size_t count : {0, 1, 15, 16, 4096, 100'003}) {
    for (const int divisor : {2, 3, 41}) {
      for (const size_t skipped : {0, 1, 16}) {
        Rng rng(count);
        const auto in = RandomRow<TypeParam>(rng, count);
        std::vector<TypeParam> want(count);
        Divide(in.data(), want.data(), count, kDType, divisor);
        const gpu::Row<TypeParam> from(in, skipped);
        const gpu::Row<TypeParam> to(std::vector<TypeParam>(count), skipped);
        gpu::Require(device::Divide(from.data(), to.data(), count, kDType,
                                    divisor, nullptr),
                     "Divide");
        gpu::Require(device::Divide(from.data(), from.data(), count, kDType,
                                    divisor, nullptr),
                     "Divide");
        gpu::Synchronize();
        EXPECT_TRUE(SameBits(to.Values(), want)) << count << " by " << divisor;
        EXPECT_TRUE(SameBits(from.Values(), want)) << "in place";
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
