#include "kernels/strided_box.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/kernels/strided_boxes.h"

namespace lockstep::kernels {
namespace {

constexpr BoxShape kSmall;
constexpr BoxShape kSmallSums = {.with_sums = true};
// Longer than a tile of a sum, and than a run that is copied by words.
constexpr BoxShape kLarge = {
    .dims_max = 3, .count_max = 70, .elements_max = 9000, .with_empty = false};
constexpr BoxShape kLargeSums = {.dims_max = 3,
                                 .count_max = 70,
                                 .elements_max = 9000,
                                 .with_empty = false,
                                 .with_sums = true};

template <class T>
class StridedBoxTest : public testing::Test {
 protected:
  using Case = BoxCase<T>;

  static Case Draw(int seed, const BoxShape& shape) {
    Rng rng(seed);
    return DrawBoxes<T>(rng, 1 + rng() % 4, shape);
  }

  static void ExpectCopies(int seed, const BoxShape& shape) {
    Case want = Draw(seed, shape);
    const Case begin = want;
    CopyBoxesRef(&want);
    OnEveryCpu([&] {
      Case got = begin;
      const void* const in[] = {got.in.data()};
      void* const out[] = {got.out[0].data(), got.out[1].data()};
      CopyBoxes(got.boxes, in, out);
      ExpectSame(got, want, seed);
    });
  }

  static void ExpectSums(int seed, const BoxShape& shape, bool add) {
    Case want = Draw(seed, shape);
    const Case begin = want;
    SumBoxesRef(&want, add);
    OnEveryCpu([&] {
      Case got = begin;
      const void* const in[] = {got.in.data()};
      void* const out[] = {got.out[0].data(), got.out[1].data()};
      SumBoxes(got.boxes, in, out, add);
      ExpectSame(got, want, seed);
    });
  }

  static void ExpectFills(int seed, const BoxShape& shape) {
    Case want = Draw(seed, shape);
    Case got = want;
    Rng rng(seed);
    const std::vector<BoxFill> fills = FillsOf(want, rng);
    FillBoxesRef(fills, &want);
    void* const out[] = {got.out[0].data(), got.out[1].data()};
    FillBoxes(fills, out);
    ExpectSame(got, want, seed);
  }

  static void ExpectSame(const Case& got, const Case& want, int seed) {
    for (int m = 0; m < 2; ++m) {
      EXPECT_TRUE(SameBits(got.out[m], want.out[m]))
          << "seed " << seed << ", memory " << m << Describe(got.boxes);
    }
  }
};
TYPED_TEST_SUITE(StridedBoxTest, EveryType);

TYPED_TEST(StridedBoxTest, CopiesWhatTheReferenceCopiesAndNothingElse) {
  for (int seed = 0; seed < 150; ++seed) this->ExpectCopies(seed, kSmall);
  for (int seed = 0; seed < 20; ++seed) this->ExpectCopies(seed, kLarge);
}

TYPED_TEST(StridedBoxTest, FillsWhatTheReferenceFillsAndNothingElse) {
  for (int seed = 0; seed < 150; ++seed) this->ExpectFills(seed, kSmall);
  for (int seed = 0; seed < 20; ++seed) this->ExpectFills(seed, kLarge);
}

TYPED_TEST(StridedBoxTest, SumsHaveTheBitsOfTheReference) {
  for (int seed = 0; seed < 60; ++seed) {
    this->ExpectSums(seed, kSmallSums, seed % 2 == 0);
  }
  for (int seed = 0; seed < 12; ++seed) {
    this->ExpectSums(seed, kLargeSums, seed % 2 == 0);
  }
}

TYPED_TEST(StridedBoxTest, AddsWithoutASummedDimension) {
  for (int seed = 0; seed < 30; ++seed) this->ExpectSums(seed, kSmall, true);
  for (int seed = 0; seed < 6; ++seed) this->ExpectSums(seed, kLarge, true);
}

// --- one fact each ----------------------------------------------------------

using BoxFloats = std::vector<float>;

void CopyOne(const StridedBox& box, const BoxFloats& in, BoxFloats* out) {
  const void* const from[] = {in.data()};
  void* const to[] = {out->data()};
  CopyBoxes({&box, 1}, from, to);
}

void SumOne(const StridedBox& box, const BoxFloats& in, BoxFloats* out,
            bool add) {
  const void* const from[] = {in.data()};
  void* const to[] = {out->data()};
  SumBoxes({&box, 1}, from, to, add);
}

TEST(CopyBoxesTest, PacksTheBlockOfTheHeader) {
  const BoxFloats in = {0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 4, 5, 6, 0};
  BoxFloats out(6);
  CopyOne({.dims = 2,
           .in_offset = 6 * sizeof(float),
           .counts = {2, 3},
           .in_strides = {5, 1},
           .out_strides = {3, 1}},
          in, &out);
  EXPECT_EQ(out, (BoxFloats{1, 2, 3, 4, 5, 6}));
}

// Each length has its own words; rows are one byte apart on one side.
TEST(CopyBoxesTest, CopiesAndFillsRunsOfEveryLength) {
  constexpr int64_t kRows = 3;
  for (int64_t bytes = 1; bytes <= 200; ++bytes) {
    Rng rng(bytes);
    const StridedBox box = {.dtype = DType::kU8,
                            .dims = 2,
                            .out_offset = 1,
                            .counts = {kRows, bytes},
                            .in_strides = {bytes, 1},
                            .out_strides = {bytes + 1, 1}};
    const auto in = RandomRow<uint8_t>(rng, kRows * bytes);
    std::vector<uint8_t> got(kRows * (bytes + 1) + 1, 0xee), want = got;
    std::vector<uint8_t> filled = got, want_filled = got;
    for (int64_t i = 0; i < kRows * bytes; ++i) {
      want[1 + i / bytes * (bytes + 1) + i % bytes] = in[i];
      want_filled[1 + i / bytes * (bytes + 1) + i % bytes] = 7;
    }
    const void* const from[] = {in.data()};
    void* const to[] = {got.data(), filled.data()};
    CopyBoxes({&box, 1}, from, to);
    EXPECT_EQ(got, want) << bytes;
    const BoxFill fill = {.dtype = DType::kU8,
                          .out_memory = 1,
                          .dims = 2,
                          .out_offset = 1,
                          .counts = {kRows, bytes},
                          .out_strides = {bytes + 1, 1},
                          .value = {std::byte{7}}};
    FillBoxes({&fill, 1}, to);
    EXPECT_EQ(filled, want_filled) << bytes;
  }
}

TEST(CopyBoxesTest, ComplexNumbersAreAlignedToTheirParts) {
  const std::vector<double> in = {0, 1, 2, 3, 4};
  std::vector<double> out(5, 9);
  const StridedBox reversed = {.dtype = DType::kC128,
                               .dims = 1,
                               .in_offset = 24,
                               .counts = {2},
                               .in_strides = {-1},
                               .out_strides = {1}};
  const void* const from[] = {in.data()};
  void* const to[] = {out.data()};
  CopyBoxes({&reversed, 1}, from, to);
  EXPECT_EQ(out, (std::vector<double>{3, 4, 1, 2, 9}));
  SumBoxes({&reversed, 1}, from, to, true);
  EXPECT_EQ(out, (std::vector<double>{6, 8, 2, 4, 9}));
}

TEST(CopyBoxesTest, ReplicatesAndReflectsAnEdge) {
  BoxFloats out(6);
  CopyOne({.dims = 1, .counts = {3}, .in_strides = {0}, .out_strides = {1}},
          {7, 8, 9}, &out);
  CopyOne({.dims = 1,
           .in_offset = 2 * sizeof(float),
           .out_offset = 3 * sizeof(float),
           .counts = {3},
           .in_strides = {-1},
           .out_strides = {1}},
          {7, 8, 9}, &out);
  EXPECT_EQ(out, (BoxFloats{7, 7, 7, 9, 8, 7}));
}

TEST(SumBoxesTest, AddsTheGradientOfAReplicatedEdge) {
  const StridedBox box = {.dims = 1, .counts = {3}, .in_strides = {1}};
  BoxFloats out = {100};
  SumOne(box, {1, 2, 3}, &out, false);
  EXPECT_EQ(out, BoxFloats{6});
  SumOne(box, {1, 2, 3}, &out, true);
  EXPECT_EQ(out, BoxFloats{12});
}

// 2^24 + 1 is 2^24 in f32: only the sum of the small ones first is exact.
TEST(SumBoxesTest, TheOldValueIsTheFirstSummandAndTheOrderIsThatOfTheBox) {
  const float large = 0x1p24f;
  StridedBox box = {.dims = 1, .counts = {3}, .in_strides = {1}};
  BoxFloats out = {0};
  SumOne(box, {1, 1, large}, &out, false);
  EXPECT_EQ(out[0], large + 2);
  SumOne(box, {large, 1, 1}, &out, false);
  EXPECT_EQ(out[0], large);
  out = {large};
  SumOne(box, {1, 1, 0}, &out, true);
  EXPECT_EQ(out[0], large);
  box.in_offset = 2 * sizeof(float);
  box.in_strides[0] = -1;
  SumOne(box, {large, 1, 1}, &out, false);
  EXPECT_EQ(out[0], large + 2);
}

TEST(SumBoxesTest, TheOrderOfSummedDimensionsIsKept) {
  const float large = 0x1p24f;
  // Rows {1, large}, {1, 0}: by rows 1 + large + 1 + 0, by columns 1 + 1 + ..
  const BoxFloats in = {1, large, 1, 0};
  BoxFloats out = {0};
  SumOne({.dims = 2, .counts = {2, 2}, .in_strides = {2, 1}}, in, &out, false);
  EXPECT_EQ(out[0], large);
  SumOne({.dims = 2, .counts = {2, 2}, .in_strides = {1, 2}}, in, &out, false);
  EXPECT_EQ(out[0], large + 2);
}

TEST(SumBoxesTest, HalvesAreRoundedOnce) {
  const F16 large = ToF16(2048);  // its next number is 2050
  const F16 one = ToF16(1);
  const std::vector<F16> in = {large, one, one};
  F16 out = {};
  const StridedBox box = {
      .dtype = DType::kF16, .dims = 1, .counts = {3}, .in_strides = {1}};
  const void* const from[] = {in.data()};
  void* const to[] = {&out};
  SumBoxes({&box, 1}, from, to, false);
  EXPECT_EQ(ToF32(out), 2050);
}

TEST(SumBoxesTest, ABoolIsTheOrEvenOf256) {
  std::vector<Bool> in(256, Bool{4});
  Bool out = {0};
  const StridedBox box = {
      .dtype = DType::kBool, .dims = 1, .counts = {256}, .in_strides = {1}};
  const void* const from[] = {in.data()};
  void* const to[] = {&out};
  SumBoxes({&box, 1}, from, to, false);
  EXPECT_EQ(out.byte, 1);
}

TEST(StridedBoxNothingTest, NoBoxesAndEmptyBoxesAreNoWork) {
  const StridedBox empty = {
      .dims = 2, .counts = {3, 0}, .in_strides = {1, 1}, .out_strides = {1, 1}};
  const BoxFill fill = {.dims = 1, .counts = {0}};
  const void* const in[] = {nullptr};
  void* const out[] = {nullptr};
  CopyBoxes({}, {}, {});
  FillBoxes({}, {});
  SumBoxes({}, {}, {}, true);
  CopyBoxes({&empty, 1}, in, out);
  FillBoxes({&fill, 1}, out);
  SumBoxes({&empty, 1}, in, out, false);
}

// --- Simplified -------------------------------------------------------------

TEST(SimplifiedTest, MergesWhatIsContiguousOnBothSides) {
  const StridedBox box = Simplified({.dims = 4,
                                     .counts = {2, 1, 3, 4},
                                     .in_strides = {24, 7, 4, 1},
                                     .out_strides = {12, 9, 4, 1}});
  ASSERT_EQ(box.dims, 2);
  EXPECT_EQ(box.counts[0], 2);
  EXPECT_EQ(box.in_strides[0], 24);
  EXPECT_EQ(box.counts[1], 12);
  EXPECT_EQ(box.in_strides[1], 1);
  EXPECT_EQ(box.out_strides[1], 1);
}

TEST(SimplifiedTest, ReordersDimensionsToMergeThem) {
  const StridedBox box = Simplified({.dims = 3,
                                     .counts = {4, 3, 2},
                                     .in_strides = {1, 4, 12},
                                     .out_strides = {1, 4, 12}});
  ASSERT_EQ(box.dims, 1);
  EXPECT_EQ(box.counts[0], 24);
}

TEST(SimplifiedTest, ReversesADimensionThatIsWrittenBackwards) {
  const StridedBox box = Simplified({.dims = 1,
                                     .in_offset = 8,
                                     .out_offset = 8,
                                     .counts = {3},
                                     .in_strides = {-1},
                                     .out_strides = {-1}});
  EXPECT_EQ(box.in_offset, 0);
  EXPECT_EQ(box.out_offset, 0);
  EXPECT_EQ(box.in_strides[0], 1);
  EXPECT_EQ(box.out_strides[0], 1);
}

TEST(SimplifiedTest, KeepsTheOrderOfSummedDimensions) {
  const StridedBox box = Simplified({.dims = 3,
                                     .counts = {2, 5, 3},
                                     .in_strides = {1, 6, 2},
                                     .out_strides = {0, 1, 0}});
  ASSERT_EQ(box.dims, 3);
  EXPECT_EQ(KeptDims(box), 1);
  EXPECT_EQ(box.counts[0], 5);
  EXPECT_EQ(box.counts[1], 2);
  EXPECT_EQ(box.counts[2], 3);
}

TEST(SimplifiedTest, AnEmptyBoxHasOneEmptyDimension) {
  const StridedBox box =
      Simplified({.dims = 3, .counts = {2, 0, 3}, .out_strides = {9, 3, 1}});
  EXPECT_EQ(box.dims, 1);
  EXPECT_EQ(box.counts[0], 0);
}

TEST(SimplifiedTest, AnElementHasNoDimensions) {
  EXPECT_EQ(Simplified({}).dims, 0);
  EXPECT_EQ(Simplified({.dims = 2, .counts = {1, 1}}).dims, 0);
}

TEST(StridedBoxDeathTest, RefusesWhatIsNoBox) {
  const float in = 1;
  float out = 0;
  const void* const from[] = {&in};
  void* const to[] = {&out};
  const StridedBox twice = {.dims = 1, .counts = {2}, .in_strides = {1}};
  EXPECT_DEATH(CopyBoxes({&twice, 1}, from, to), "twice");
  const BoxFill fill = {.dims = 1, .counts = {2}};
  EXPECT_DEATH(FillBoxes({&fill, 1}, to), "twice");
  const StridedBox far = {.in_memory = 1};
  EXPECT_DEATH(CopyBoxes({&far, 1}, from, to), "memory");
  EXPECT_DEATH(SumBoxes({&far, 1}, from, to, false), "memory");
  EXPECT_DEATH(Simplified({.dims = 9}), "dimensions");
  EXPECT_DEATH(Simplified({.dims = 1, .counts = {-1}}), "count");
}

}  // namespace
}  // namespace lockstep::kernels
