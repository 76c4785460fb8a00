// The device's finite check gives its host twin's bits, whatever the length.

#include "kernels/device/finite_check.h"

#include <limits>

#include "gtest/gtest.h"
#include "kernels/finite_check.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

template <class T>
void ExpectTwins(const std::vector<T>& row, size_t skipped, double scale) {
  const FiniteCheck want =
      CheckFinite(row.data(), DTypeOf<T>(), row.size(), scale);
  const gpu::Row<T> data(row, skipped);
  const gpu::Memory scratch(device::FiniteCheckScratchBytes(row.size()) + 8);
  const gpu::Memory result(sizeof(FiniteCheck));
  gpu::Require(device::CheckFinite(
                   data.data(), DTypeOf<T>(), row.size(), scale, scratch.data(),
                   reinterpret_cast<FiniteCheck*>(result.data()), nullptr),
               "CheckFinite");
  gpu::Synchronize();
  FiniteCheck got;
  result.Read(&got, sizeof got);
  EXPECT_EQ(got.non_finite, want.non_finite) << row.size() << " elements";
  EXPECT_EQ(RawBits(got.sum_of_squares), RawBits(want.sum_of_squares))
      << row.size() << " elements, " << skipped << " skipped";
}

template <class T>
class DeviceFiniteCheckTest : public testing::Test {};
TYPED_TEST_SUITE(DeviceFiniteCheckTest, FloatTypes);

TYPED_TEST(DeviceFiniteCheckTest, GivesTheBitsOfItsHostTwin) {
  Rng rng(7);
  for (const size_t count :
       {0, 1, 31, 33, 4095, 4096, 4097, 50'000, 4096 * 4096 + 5}) {
    for (const size_t skipped : {0, 1}) {
      std::vector<TypeParam> row(count);
      for (TypeParam& value : row) {
        value = ConvertTo<TypeParam>(
            static_cast<double>(static_cast<int64_t>(rng())) * 0x1p-63);
      }
      ExpectTwins(row, skipped, 1.0 / 3);
    }
  }
}

TYPED_TEST(DeviceFiniteCheckTest, CountsWhatIsNotFiniteAndLeavesItOut) {
  Rng rng(8);
  ExpectTwins(RandomRow<TypeParam>(rng, 70'000), 0, 1.0);
  std::vector<TypeParam> row(9000, Whole<TypeParam>(2));
  row[0] = ConvertTo<TypeParam>(std::numeric_limits<double>::infinity());
  row[4096] = ConvertTo<TypeParam>(std::numeric_limits<double>::quiet_NaN());
  row[8999] = ConvertTo<TypeParam>(-std::numeric_limits<double>::infinity());
  ExpectTwins(row, 0, 0.5);
}

}  // namespace
}  // namespace lockstep::kernels
