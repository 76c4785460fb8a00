#include "kernels/pack.h"

#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/pack_ref.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

// Tensors of many sizes and a bucket with gaps, all random. Copies are equal
// and share no memory. Tensors begin at odd elements, so that few pointers have
// more than their element's alignment.
template <class T>
class PackScene {
 public:
  explicit PackScene(int seed) {
    Rng rng(seed);
    const size_t sizes[] = {1, 2, 31, 1023, 1025, 0, 16384, 7, 20001, 3};
    size_t in_memory = 1;
    size_t offset = rng() % 3;
    for (size_t i = 0; i < 20; ++i) {
      const size_t count = sizes[rng() % std::size(sizes)];
      places_.push_back({in_memory, {nullptr, offset, count}});
      in_memory += count + 1;
      offset += count + (rng() % 2 ? rng() % 50 : 0);
    }
    memory_ = RandomRow<T>(rng, in_memory);
    bucket_ = RandomRow<T>(rng, offset + 5);
  }

  std::vector<TensorSlot> slots() {
    std::vector<TensorSlot> slots;
    for (const auto& [at, slot] : places_) {
      slots.push_back({memory_.data() + at, slot.offset, slot.count});
    }
    return slots;
  }
  T* bucket() { return bucket_.data(); }

  // Compares the gaps between slots too, which must be unchanged.
  testing::AssertionResult Equals(const PackScene& other) const {
    auto memory = SameBits(memory_, other.memory_);
    return memory ? SameBits(bucket_, other.bucket_) : memory << " (tensors)";
  }

 private:
  struct Place {
    size_t in_memory;
    TensorSlot slot;
  };
  std::vector<Place> places_;
  std::vector<T> memory_;
  std::vector<T> bucket_;
};

// `kernel` and `reference` each get a copy of the same scene.
template <class T, class Kernel, class Reference>
void ExpectTwins(Kernel&& kernel, Reference&& reference) {
  for (int seed = 0; seed < 4; ++seed) {
    const PackScene<T> scene(seed);
    PackScene<T> want = scene;
    reference(want);
    OnEveryCpu([&] {
      PackScene<T> got = scene;
      kernel(got);
      EXPECT_TRUE(got.Equals(want)) << "seed " << seed;
    });
  }
}

template <class T>
class PackCopyTest : public testing::Test {};
TYPED_TEST_SUITE(PackCopyTest, AllTypes);

TYPED_TEST(PackCopyTest, PackPutsEachTensorInItsSlotAndTouchesNothingElse) {
  ExpectTwins<TypeParam>(
      [](auto& s) { Pack(s.slots(), DTypeOf<TypeParam>(), s.bucket()); },
      [](auto& s) { PackRef<TypeParam>(s.slots(), s.bucket()); });
}

TYPED_TEST(PackCopyTest, UnpackBringsEachTensorBack) {
  ExpectTwins<TypeParam>(
      [](auto& s) { Unpack(s.bucket(), s.slots(), DTypeOf<TypeParam>()); },
      [](auto& s) { UnpackRef<TypeParam>(s.bucket(), s.slots()); });
}

TYPED_TEST(PackCopyTest, ZeroClearsTheSlotsAndLeavesTheGaps) {
  ExpectTwins<TypeParam>(
      [](auto& s) { ZeroSlots(s.bucket(), s.slots(), DTypeOf<TypeParam>()); },
      [](auto& s) { ZeroSlotsRef<TypeParam>(s.bucket(), s.slots()); });
}

template <class T>
class PackArithmeticTest : public testing::Test {
 protected:
  static constexpr DType kDType = DTypeOf<T>();
  static constexpr double kWeight = 1.0 / 3;
  static Compute<T> Rounded() { return static_cast<Compute<T>>(kWeight); }
};
TYPED_TEST_SUITE(PackArithmeticTest, FloatTypes);

TYPED_TEST(PackArithmeticTest, PackScaledMultipliesAndRoundsOnce) {
  ExpectTwins<TypeParam>(
      [this](auto& s) {
        PackScaled(s.slots(), this->kDType, this->kWeight, s.bucket());
      },
      [this](auto& s) {
        PackScaledRef<TypeParam>(s.slots(), this->Rounded(), s.bucket());
      });
}

TYPED_TEST(PackArithmeticTest, PackAddedAddsToWhatIsThere) {
  ExpectTwins<TypeParam>(
      [this](auto& s) {
        PackAdded(s.slots(), this->kDType, this->kWeight, s.bucket());
      },
      [this](auto& s) {
        PackAddedRef<TypeParam>(s.slots(), this->Rounded(), s.bucket());
      });
}

TYPED_TEST(PackArithmeticTest, UnpackScaledMultipliesOnTheWayOut) {
  ExpectTwins<TypeParam>(
      [this](auto& s) {
        UnpackScaled(s.bucket(), s.slots(), this->kDType, this->kWeight);
      },
      [this](auto& s) {
        UnpackScaledRef<TypeParam>(s.bucket(), s.slots(), this->Rounded());
      });
}

TYPED_TEST(PackArithmeticTest, ScaleSlotsMultipliesInPlace) {
  ExpectTwins<TypeParam>(
      [this](auto& s) {
        ScaleSlots(s.bucket(), s.slots(), this->kDType, this->kWeight);
      },
      [this](auto& s) {
        ScaleSlotsRef<TypeParam>(s.bucket(), s.slots(), this->Rounded());
      });
}

// 3, then + 2 * 5, then + 0.5 * 8: whole numbers, so every type is exact.
TYPED_TEST(PackArithmeticTest, WeightedMicroBatchesAddUpExactly) {
  std::vector<TypeParam> gradient(2000, Whole<TypeParam>(3));
  std::vector<TypeParam> bucket(2000, Whole<TypeParam>(99));
  const std::vector<TensorSlot> slots = {
      {.tensor = gradient.data(), .offset = 0, .count = gradient.size()}};
  PackScaled(slots, this->kDType, 1.0, bucket.data());
  gradient.assign(2000, Whole<TypeParam>(5));
  PackAdded(slots, this->kDType, 2.0, bucket.data());
  gradient.assign(2000, Whole<TypeParam>(8));
  PackAdded(slots, this->kDType, 0.5, bucket.data());
  EXPECT_TRUE(
      SameBits(bucket, std::vector<TypeParam>(2000, Whole<TypeParam>(17))));
}

TEST(PackTest, ProductAndSumAreRoundedEachByItself) {
  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24 rounds to 1 + 2^-11 as a product; fused
  // with the - (1 + 2^-11) there would be 2^-24 left.
  float gradient = 1 + 0x1p-12f;
  float bucket = -(1 + 0x1p-11f);
  const TensorSlot slots[] = {{.tensor = &gradient, .offset = 0, .count = 1}};
  OnEveryCpu([&] {
    float sum = bucket;
    PackAdded(slots, DType::kF32, gradient, &sum);
    EXPECT_EQ(sum, 0.0f);
  });
}

TEST(PackTest, NoSlotsAreNoWork) {
  Pack({}, DType::kF32, nullptr);
  PackAdded({}, DType::kBF16, 1.0, nullptr);
  ZeroSlots(nullptr, {}, DType::kI8);
}

TEST(PackDeathTest, OverlappingSlotsEndTheProcessWithTheReason) {
  float x[4] = {};
  const TensorSlot slots[] = {{x, 0, 2}, {x + 2, 1, 2}};
  float bucket[4];
  EXPECT_DEATH(Pack(slots, DType::kF32, bucket), "overlap");
}

TEST(PackDeathTest, IntegersHaveNoWeights) {
  int32_t x[1] = {};
  const TensorSlot slots[] = {{x, 0, 1}};
  int32_t bucket[1];
  EXPECT_DEATH(PackScaled(slots, DType::kI32, 1.0, bucket), "f32");
}

}  // namespace
}  // namespace lockstep::kernels
