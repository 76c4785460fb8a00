#include "kernels/flags.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

template <class T>
class FlagsTest : public testing::Test {};
TYPED_TEST_SUITE(FlagsTest, FloatTypes);

TYPED_TEST(FlagsTest, AreOneOrZeroAndNoBitOfZeroIsSet) {
  const std::vector<uint8_t> on = {1, 0, 255, 0, 2};
  std::vector<TypeParam> flags(on.size() + 1, Whole<TypeParam>(7));
  WriteFlags(on, DTypeOf<TypeParam>(), flags.data());
  for (size_t i = 0; i < on.size(); ++i) {
    EXPECT_EQ(RawBits(flags[i]), on[i] == 0 ? 0u : RawBits(Whole<TypeParam>(1)))
        << i;
  }
  EXPECT_EQ(RawBits(flags.back()), RawBits(Whole<TypeParam>(7)));
}

}  // namespace
}  // namespace lockstep::kernels
