// The device's reduction of rows is bit-equal to its host reference, aligned or
// not.

#include "kernels/device/reduce.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/reduce.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

template <class T>
void ExpectTwins(size_t count, int rows, size_t skipped, ReduceOp op) {
  Rng rng(count * 31 + rows);
  const std::vector<T> inputs = RandomRow<T>(rng, rows * count);
  std::vector<T> want(count);
  ReduceRows(inputs.data(), rows, want.data(), count, DTypeOf<T>(), op);
  const gpu::Row<T> in(inputs, skipped);
  const gpu::Row<T> out(std::vector<T>(count), skipped);
  gpu::Require(device::ReduceRows(in.data(), rows, out.data(), count,
                                  DTypeOf<T>(), op, nullptr),
               "ReduceRows");
  gpu::Synchronize();
  EXPECT_TRUE(SameBits(out.Values(), want))
      << Name(op) << " of " << rows << " rows of " << count << ", " << skipped
      << " skipped";
}

template <class T>
class DeviceReduceTest : public testing::Test {};
TYPED_TEST_SUITE(DeviceReduceTest, AllTypes);

TYPED_TEST(DeviceReduceTest, GivesTheBitsOfItsHostTwin) {
  std::vector<ReduceOp> ops = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax,
                               ReduceOp::kProd};
  if (kIsFloat<TypeParam>) ops.push_back(ReduceOp::kMean);
  for (const size_t count : {0, 1, 15, 16, 64, 4096, 100'003}) {
    for (const int rows : {1, 2, 3, 8}) {
      for (const size_t skipped : {0, 1, 16}) {
        for (const ReduceOp op : ops) {
          ExpectTwins<TypeParam>(count, rows, skipped, op);
        }
      }
    }
  }
}

TYPED_TEST(DeviceReduceTest, TheOutputMayBeARow) {
  constexpr size_t kCount = 5000;
  Rng rng(4);
  for (int row : {0, 1, 2}) {
    std::vector<TypeParam> inputs = RandomRow<TypeParam>(rng, 3 * kCount);
    const gpu::Row<TypeParam> in(inputs);
    gpu::Require(
        device::ReduceRows(in.data(), 3, in.data() + row * kCount, kCount,
                           DTypeOf<TypeParam>(), ReduceOp::kMax, nullptr),
        "ReduceRows");
    gpu::Synchronize();
    ReduceRows(inputs.data(), 3, inputs.data() + row * kCount, kCount,
               DTypeOf<TypeParam>(), ReduceOp::kMax);
    EXPECT_TRUE(SameBits(in.Values(), inputs)) << "into row " << row;
  }
}

}  // namespace
}  // namespace lockstep::kernels
