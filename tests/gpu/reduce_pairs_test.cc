// The device's reduction in pairs is bit-equal to its host reference.

#include "kernels/device/reduce_pairs.h"

#include "gtest/gtest.h"
#include "kernels/reduce_pairs.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

template <class T, class Out>
void ExpectTwins(int rows, size_t count) {
  Rng rng(count * 31 + rows);
  const std::vector<T> inputs = RandomRow<T>(rng, rows * count);
  std::vector<Out> want(count);
  ReducePairs(inputs.data(), rows, DTypeOf<T>(), 0.125, want.data(),
              DTypeOf<Out>(), count);
  const gpu::Row<T> from(inputs, 0);
  const gpu::Row<Out> to(std::vector<Out>(count), 0);
  gpu::Require(device::ReducePairs(from.data(), rows, DTypeOf<T>(), 0.125,
                                   to.data(), DTypeOf<Out>(), count, nullptr),
               "ReducePairs");
  gpu::Synchronize();
  EXPECT_TRUE(SameBits(to.Values(), want)) << rows << " rows of " << count;
}

TEST(DeviceReducePairsTest, GivesTheBitsOfItsHostTwin) {
  for (const int rows : {1, 2, 4, 8, 16, 128}) {
    for (const size_t count : {0, 1, 257, 10'003}) {
      ExpectTwins<float, BF16>(rows, count);
      ExpectTwins<float, F16>(rows, count);
      ExpectTwins<float, float>(rows, count);
      ExpectTwins<double, double>(rows, count);
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
