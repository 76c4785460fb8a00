// The device's AddLeaf is bit-equal to its host reference.

#include "kernels/device/add_leaf.h"

#include "gtest/gtest.h"
#include "kernels/add_leaf.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

template <class Leaf>
void ExpectTwins(size_t sums, size_t count, double weight) {
  using Sum = Compute<Leaf>;
  Rng rng(count * 13 + sums);
  const std::vector<Leaf> leaf = RandomRow<Leaf>(rng, count);
  const std::vector<Sum> left = RandomRow<Sum>(rng, sums * count);
  const gpu::Row<Leaf> leaf_there(leaf, 0);
  const gpu::Row<Sum> left_there(left, 0);
  const gpu::Row<Sum> out_there(std::vector<Sum>(count), 0);
  std::vector<const void*> here;
  std::vector<const void*> there;
  for (size_t k = 0; k < sums; ++k) {
    here.push_back(left.data() + k * count);
    there.push_back(left_there.data() + k * count);
  }
  std::vector<Sum> want(count);
  AddLeaf(here, leaf.data(), DTypeOf<Leaf>(), weight, want.data(),
          DTypeOf<Sum>(), count);
  gpu::Require(
      device::AddLeaf(there, leaf_there.data(), DTypeOf<Leaf>(), weight,
                      out_there.data(), DTypeOf<Sum>(), count, nullptr),
      "AddLeaf");
  gpu::Synchronize();
  EXPECT_TRUE(SameBits(out_there.Values(), want)) << sums << " of " << count;
}

TEST(DeviceAddLeafTest, GivesTheBitsOfItsHostTwin) {
  for (const size_t sums : {0, 1, 3, 10}) {
    for (const size_t count : {0, 1, 257, 10'003}) {
      for (const double weight : {1.0, 0.3}) {
        ExpectTwins<F16>(sums, count, weight);
        ExpectTwins<BF16>(sums, count, weight);
        ExpectTwins<float>(sums, count, weight);
        ExpectTwins<double>(sums, count, weight);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
