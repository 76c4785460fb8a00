// The device's pack and unpack are bit-equal to their host references, in one
// launch over many tensors, and write nothing else.

#include "kernels/device/pack.h"

#include <functional>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/pack.h"
#include "tests/gpu/device.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

// Tensors of many sizes, some aligned like the bucket and some not, in one
// memory block; a bucket with gaps. Once on the host and once on the device.
template <class T>
class Scene {
 public:
  explicit Scene(int seed) {
    Rng rng(seed);
    const size_t sizes[] = {1, 2, 31, 1023, 1025, 0, 16384, 7, 20'001, 3};
    size_t in_memory = rng() % 3;
    size_t offset = rng() % 2 == 0 ? 0 : rng() % 9;
    const size_t slots[] = {1, 8, 9, 40, 1500};
    for (size_t i = 0; i < slots[seed % 5]; ++i) {
      const size_t count = sizes[rng() % std::size(sizes)];
      at_.push_back(in_memory);
      slots_.push_back({nullptr, offset, count});
      in_memory += count + (rng() % 2 == 0 ? 1 : (64 - count % 64) % 64);
      offset += count + (rng() % 2 == 0 ? rng() % 50 : 0);
    }
    tensors_ = RandomRow<T>(rng, in_memory + 1);
    bucket_ = RandomRow<T>(rng, offset + 5);
  }

  using OnHost = std::function<void(std::span<const TensorSlot>, void*)>;
  using OnDevice =
      std::function<device::Launched(std::span<const TensorSlot>, void*)>;
  void ExpectTwins(const OnHost& on_host, const OnDevice& on_device) {
    const gpu::Row<T> tensors(tensors_), bucket(bucket_);
    gpu::Require(on_device(SlotsIn(tensors.data()), bucket.data()),
                 "a launch over slots");
    gpu::Synchronize();
    on_host(SlotsIn(tensors_.data()), bucket_.data());
    EXPECT_TRUE(SameBits(tensors.Values(), tensors_)) << "tensors";
    EXPECT_TRUE(SameBits(bucket.Values(), bucket_)) << "bucket";
  }

 private:
  std::vector<TensorSlot> SlotsIn(T* memory) const {
    std::vector<TensorSlot> slots = slots_;
    for (size_t i = 0; i < slots.size(); ++i) slots[i].tensor = memory + at_[i];
    return slots;
  }

  std::vector<size_t> at_;  // offset of each tensor in the memory
  std::vector<TensorSlot> slots_;
  std::vector<T> tensors_;
  std::vector<T> bucket_;
};

template <class T>
class DeviceCopyTest : public testing::Test {};
TYPED_TEST_SUITE(DeviceCopyTest, AllTypes);

TYPED_TEST(DeviceCopyTest, PackUnpackAndZeroGiveTheBitsOfTheirTwins) {
  const DType dtype = DTypeOf<TypeParam>();
  for (int seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    Scene<TypeParam>(seed).ExpectTwins(
        [&](auto slots, void* b) { Pack(slots, dtype, b); },
        [&](auto slots, void* b) {
          return device::Pack(slots, dtype, b, nullptr);
        });
    Scene<TypeParam>(seed).ExpectTwins(
        [&](auto slots, void* b) { Unpack(b, slots, dtype); },
        [&](auto slots, void* b) {
          return device::Unpack(b, slots, dtype, nullptr);
        });
    Scene<TypeParam>(seed).ExpectTwins(
        [&](auto slots, void* b) { ZeroSlots(b, slots, dtype); },
        [&](auto slots, void* b) {
          return device::ZeroSlots(b, slots, dtype, nullptr);
        });
  }
}

template <class T>
class DeviceScaleTest : public testing::Test {};
TYPED_TEST_SUITE(DeviceScaleTest, FloatTypes);

TYPED_TEST(DeviceScaleTest, WhatMultipliesGivesTheBitsOfItsTwin) {
  const DType dtype = DTypeOf<TypeParam>();
  constexpr double kWeight = 1.0 / 3;
  for (int seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    Scene<TypeParam>(seed).ExpectTwins(
        [&](auto slots, void* b) { PackScaled(slots, dtype, kWeight, b); },
        [&](auto slots, void* b) {
          return device::PackScaled(slots, dtype, kWeight, b, nullptr);
        });
    Scene<TypeParam>(seed).ExpectTwins(
        [&](auto slots, void* b) { PackAdded(slots, dtype, kWeight, b); },
        [&](auto slots, void* b) {
          return device::PackAdded(slots, dtype, kWeight, b, nullptr);
        });
    Scene<TypeParam>(seed).ExpectTwins(
        [&](auto slots, void* b) { UnpackScaled(b, slots, dtype, kWeight); },
        [&](auto slots, void* b) {
          return device::UnpackScaled(b, slots, dtype, kWeight, nullptr);
        });
    Scene<TypeParam>(seed).ExpectTwins(
        [&](auto slots, void* b) { ScaleSlots(b, slots, dtype, kWeight); },
        [&](auto slots, void* b) {
          return device::ScaleSlots(b, slots, dtype, kWeight, nullptr);
        });
  }
}

}  // namespace
}  // namespace lockstep::kernels
