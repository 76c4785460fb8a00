// The device moves slices to the bytes of its host twins, and writes nothing
// else.

#include "kernels/device/slices.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

// Slices with gaps, some empty, and each seventh outside of the tensor.
struct SliceScene {
  SliceScene(uint64_t seed, size_t count) {
    Rng rng(seed);
    for (size_t s = 0; s < count; ++s) {
      const auto size = static_cast<int64_t>(rng() % 5);
      tensor_rows += rng() % 3;
      sizes.push_back(size);
      offsets.push_back(s % 7 == 6 ? -1 : static_cast<int64_t>(tensor_rows));
      tensor_rows += static_cast<size_t>(size);
      packed_rows += static_cast<size_t>(size);
    }
  }
  std::vector<int64_t> sizes, offsets;
  size_t tensor_rows = 0, packed_rows = 0;
};

TEST(DeviceSlicesTest, MoveAsOnTheHost) {
  for (const size_t count : {0, 1, 8, 9, 300, 1500}) {
    for (const size_t row_bytes : {0, 1, 2, 4, 8, 16, 24, 5000}) {
      const SliceScene scene(count + row_bytes, count);
      Rng rng(row_bytes);
      const auto source =
          RandomRow<uint8_t>(rng, scene.tensor_rows * row_bytes);
      std::vector<uint8_t> packed(scene.packed_rows * row_bytes, 0xee);
      std::vector<uint8_t> tensor(scene.tensor_rows * row_bytes, 0xee);
      const gpu::Row<uint8_t> from(source), between(packed), to(tensor);
      const gpu::Row<int64_t> at(std::vector<int64_t>(count, -7));
      PackSlices(scene.sizes, scene.offsets.data(), source.data(),
                 scene.tensor_rows, packed.data(), row_bytes);
      UnpackSlices(scene.sizes, scene.offsets.data(), packed.data(),
                   tensor.data(), scene.tensor_rows, row_bytes);
      gpu::Require(device::StoreList(scene.offsets, at.data(), nullptr),
                   "StoreList");
      gpu::Require(device::PackSlices(scene.sizes, at.data(), from.data(),
                                      scene.tensor_rows, between.data(),
                                      row_bytes, nullptr),
                   "PackSlices");
      gpu::Require(device::UnpackSlices(scene.sizes, at.data(), between.data(),
                                        to.data(), scene.tensor_rows, row_bytes,
                                        nullptr),
                   "UnpackSlices");
      gpu::Synchronize();
      EXPECT_EQ(at.Values(), scene.offsets);
      EXPECT_TRUE(SameBits(between.Values(), packed)) << count << row_bytes;
      EXPECT_TRUE(SameBits(to.Values(), tensor)) << count << row_bytes;
      ZeroSlices(scene.sizes, scene.offsets.data(), tensor.data(),
                 scene.tensor_rows, row_bytes);
      gpu::Require(device::ZeroSlices(scene.sizes, at.data(), to.data(),
                                      scene.tensor_rows, row_bytes, nullptr),
                   "ZeroSlices");
      gpu::Synchronize();
      EXPECT_TRUE(SameBits(to.Values(), tensor)) << "zeros of " << count;
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
