// The device's reduction of the dtypes that transports do not have is bit-equal
// to its host twin, aligned or not.

#include "kernels/device/reduce_any.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/reduce_any.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

template <class T>
void ExpectTwins(size_t count, int rows, size_t skipped, ReduceOp op) {
  Rng rng(count * 31 + rows);
  const std::vector<T> inputs = RandomRow<T>(rng, rows * count);
  std::vector<const void*> each;
  for (int row = 0; row < rows; ++row) {
    each.push_back(inputs.data() + row * count);
  }
  std::vector<T> want(count);
  ReduceAny(each, want.data(), count, DTypeOf<T>(), op);
  const gpu::Row<T> in(inputs, skipped);
  const gpu::Row<T> out(std::vector<T>(count), skipped);
  gpu::Require(device::ReduceAnyRows(in.data(), rows, out.data(), count,
                                     DTypeOf<T>(), op, nullptr),
               "ReduceAnyRows");
  gpu::Synchronize();
  EXPECT_TRUE(SameBits(out.Values(), want))
      << Name(op) << " of " << rows << " rows of " << count << ", " << skipped
      << " skipped";
}

template <class T>
class DeviceReduceAnyTest : public testing::Test {};
TYPED_TEST_SUITE(DeviceReduceAnyTest, OtherTypes);

TYPED_TEST(DeviceReduceAnyTest, GivesTheBitsOfItsHostTwin) {
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin,
                      ReduceOp::kMax, ReduceOp::kProd}) {
    if (!CanReduceAny(DTypeOf<TypeParam>(), op)) continue;
    for (const size_t count : {0, 1, 15, 16, 64, 4096, 100'003}) {
      for (const int rows : {1, 2, 3, 8}) {
        for (const size_t skipped : {0, 1, 16}) {
          ExpectTwins<TypeParam>(count, rows, skipped, op);
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
