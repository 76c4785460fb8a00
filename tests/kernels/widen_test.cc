#include "kernels/widen.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reduce_any.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

constexpr size_t kCounts[] = {0, 1, 31, 4001, 100'003};

template <class T>
bool IsTrue(T value) {
  if constexpr (std::is_same_v<T, Bool>) {
    return value.byte != 0;
  } else {
    return value != 0;
  }
}

template <class T>
class WidenTest : public testing::Test {};
using NarrowTypes = testing::Types<uint8_t, int8_t, int16_t, uint16_t, Bool>;
TYPED_TEST_SUITE(WidenTest, NarrowTypes);

TYPED_TEST(WidenTest, KeepsEveryValue) {
  for (size_t count : kCounts) {
    Rng rng(count);
    const std::vector<TypeParam> in = RandomRow<TypeParam>(rng, count);
    std::vector<int32_t> want;
    for (TypeParam value : in) {
      if constexpr (std::is_same_v<TypeParam, Bool>) {
        want.push_back(IsTrue(value) ? 1 : 0);
      } else {
        want.push_back(value);
      }
    }
    std::vector<int32_t> got(count, -2);
    WidenToI32(in.data(), got.data(), count, DTypeOf<TypeParam>());
    EXPECT_TRUE(SameBits(got, want)) << count << " elements";
  }
}

TYPED_TEST(WidenTest, NarrowingKeepsTheLowBitsOrWhetherThereAreAny) {
  for (size_t count : kCounts) {
    Rng rng(count);
    std::vector<int32_t> in = RandomRow<int32_t>(rng, count);
    for (size_t i = 0; i < count; i += 2) {
      in[i] = static_cast<int32_t>(rng() % 5) - 2;
    }
    if (count > 4) in[3] = 0x01000000;  // true, though its low bits are 0
    std::vector<TypeParam> want(count);
    for (size_t i = 0; i < count; ++i) {
      if constexpr (std::is_same_v<TypeParam, Bool>) {
        want[i].byte = in[i] != 0 ? 1 : 0;
      } else {
        std::memcpy(&want[i], &in[i], sizeof(TypeParam));  // little-endian
      }
    }
    std::vector<TypeParam> got(count);
    NarrowFromI32(in.data(), got.data(), count, DTypeOf<TypeParam>());
    EXPECT_TRUE(SameBits(got, want)) << count << " elements";
  }
}

TYPED_TEST(WidenTest, ThereAndBackIsTheSame) {
  std::vector<TypeParam> in(0x10000);
  for (size_t i = 0; i < in.size(); ++i) std::memcpy(&in[i], &i, 1);
  if constexpr (std::is_same_v<TypeParam, Bool>) {
    for (Bool& value : in) value.byte &= 1;
  } else {
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<TypeParam>(i);
  }
  std::vector<int32_t> wide(in.size());
  std::vector<TypeParam> back(in.size());
  WidenToI32(in.data(), wide.data(), in.size(), DTypeOf<TypeParam>());
  NarrowFromI32(wide.data(), back.data(), in.size(), DTypeOf<TypeParam>());
  EXPECT_TRUE(SameBits(back, in));
}

// i16 is lowered either to i32, or to a gather and ReduceAny.
TEST(WidenSumTest, AWidenedSumHasTheBitsOfANarrowOne) {
  Rng rng(3);
  constexpr size_t kCount = 5000;
  std::vector<std::vector<int16_t>> rows;
  std::vector<const void*> each;
  std::vector<int32_t> sum(kCount), wide(kCount);
  for (int row = 0; row < 5; ++row) {
    rows.push_back(RandomRow<int16_t>(rng, kCount));
    each.push_back(rows.back().data());
    WidenToI32(rows.back().data(), wide.data(), kCount, DType::kI16);
    for (size_t i = 0; i < kCount; ++i) sum[i] += wide[i];
  }
  std::vector<int16_t> narrow(kCount), direct(kCount);
  NarrowFromI32(sum.data(), narrow.data(), kCount, DType::kI16);
  ReduceAny(each, direct.data(), kCount, DType::kI16, ReduceOp::kSum);
  EXPECT_TRUE(SameBits(narrow, direct));
}

// Rounds to nearest even by integer arithmetic: 24 bits remain.
float NearestF32(__int128 value) {
  unsigned __int128 magnitude = value < 0 ? -value : value;
  int dropped = 0;
  while (magnitude >> dropped >= 1u << 24) ++dropped;
  const auto unit = static_cast<unsigned __int128>(1) << dropped;
  const auto rest = magnitude % unit;
  auto kept = magnitude / unit;
  if (2 * rest > unit || (2 * rest == unit && kept % 2 == 1)) ++kept;
  const float positive =
      std::ldexp(static_cast<float>(static_cast<uint32_t>(kept)), dropped);
  return value < 0 ? -positive : positive;
}

template <class T>
class WidenToF32Test : public testing::Test {
 protected:
  static float Converted(T value) {
    float out = -1;
    ConvertToF32(&value, &out, 1, DTypeOf<T>());
    return out;
  }
};
using WholeTypes = testing::Types<uint8_t, int8_t, int16_t, uint16_t, int32_t,
                                  uint32_t, int64_t, uint64_t, Bool>;
TYPED_TEST_SUITE(WidenToF32Test, WholeTypes);

TYPED_TEST(WidenToF32Test, RoundsEveryIntegerToTheNearest) {
  for (size_t count : kCounts) {
    Rng rng(count);
    std::vector<TypeParam> in = RandomRow<TypeParam>(rng, count);
    if constexpr (sizeof(TypeParam) >= 4) {
      for (TypeParam& value : in) value >>= rng() % (8 * sizeof(value));
    }
    std::vector<float> want;
    for (TypeParam value : in) {
      if constexpr (std::is_same_v<TypeParam, Bool>) {
        want.push_back(IsTrue(value) ? 1 : 0);
      } else {
        want.push_back(NearestF32(value));
      }
    }
    std::vector<float> got(count, -1.0f);
    ConvertToF32(in.data(), got.data(), count, DTypeOf<TypeParam>());
    EXPECT_TRUE(SameBits(got, want)) << count << " elements";
  }
}

template <class T>
class WidenWideToF32Test : public WidenToF32Test<T> {};
using WideTypes = testing::Types<int32_t, uint32_t, int64_t, uint64_t>;
TYPED_TEST_SUITE(WidenWideToF32Test, WideTypes);

// Around the ties of every exponent: one more or less than a tie differs from
// it, also where f64 cannot tell.
TYPED_TEST(WidenWideToF32Test, TiesGoToEven) {
  constexpr int kBits = std::numeric_limits<TypeParam>::digits;
  for (int top = 24; top < kBits; ++top) {
    for (uint64_t kept : {0u, 1u, 2u, 0xfffffeu / 2}) {
      const uint64_t tie = (uint64_t{1} << top) + (kept << (top - 23)) +
                           (uint64_t{1} << (top - 24));
      for (const uint64_t bits : {tie - 1, tie, tie + 1}) {
        const auto value = static_cast<TypeParam>(bits);
        ASSERT_EQ(this->Converted(value), NearestF32(value)) << bits;
        const TypeParam negative = -value;
        ASSERT_EQ(this->Converted(negative), NearestF32(negative)) << bits;
      }
    }
  }
  using Limits = std::numeric_limits<TypeParam>;
  for (TypeParam value : {Limits::min(), Limits::max()}) {
    EXPECT_EQ(this->Converted(value), NearestF32(value));
  }
}

TEST(WidenFloatTest, F32IsCopiedAndScaled) {
  Rng rng(5);
  for (size_t count : kCounts) {
    const std::vector<float> in = RandomRow<float>(rng, count);
    std::vector<float> got(count);
    ConvertToF32(in.data(), got.data(), count, DType::kF32);
    EXPECT_TRUE(SameBits(got, in));
    std::vector<float> want = in;
    for (float& value : want) value *= 1.0f / 3;
    ScaleF32(got.data(), count, 1.0f / 3);
    EXPECT_TRUE(SameBits(got, want));
  }
}

TEST(WidenDeathTest, OtherDtypesEndTheProcess) {
  int64_t x = 0;
  int32_t y = 0;
  float z = 0;
  EXPECT_DEATH(WidenToI32(&x, &y, 1, DType::kI64), "i16");
  EXPECT_DEATH(NarrowFromI32(&y, &x, 1, DType::kU32), "i16");
  for (DType dtype : {DType::kF16, DType::kF64, DType::kC64, DType::kF8E5M2}) {
    EXPECT_DEATH(ConvertToF32(&x, &z, 1, dtype), "integers");
  }
}

}  // namespace
}  // namespace lockstep::kernels
