#include "kernels/reduce_pairs.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/reduce_pairs_ref.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

template <class T, class Out>
void ExpectTwins(int rows, double factor) {
  for (const size_t count : {0, 1, 7, 1023, 1025, 2500}) {
    Rng rng(count * 31 + rows);
    const std::vector<T> inputs = RandomRow<T>(rng, rows * count);
    std::vector<Out> got = RandomRow<Out>(rng, count);
    std::vector<Out> want = got;
    ReducePairs(inputs.data(), rows, DTypeOf<T>(), factor, got.data(),
                DTypeOf<Out>(), count);
    ReducePairsRef(inputs.data(), rows, factor, want.data(), count);
    EXPECT_TRUE(SameBits(got, want)) << rows << " rows of " << count;
  }
}

TEST(ReducePairsTest, GivesTheBitsOfTheReference) {
  OnEveryCpu([] {
    for (const int rows : {1, 2, 4, 8, 64}) {
      for (const double factor : {1.0, 0.125}) {
        ExpectTwins<float, BF16>(rows, factor);
        ExpectTwins<float, F16>(rows, factor);
        ExpectTwins<float, float>(rows, factor);
        ExpectTwins<double, double>(rows, factor);
      }
    }
  });
}

// Ranks with two, four, ... rows each first reduce their own rows.
TEST(ReducePairsTest, AnyCutIntoPowersOfTwoGivesTheSameBits) {
  constexpr int kRows = 16;
  constexpr size_t kCount = 3000;
  Rng rng(5);
  const std::vector<float> inputs = RandomRow<float>(rng, kRows * kCount);
  std::vector<float> whole(kCount);
  ReducePairs(inputs.data(), kRows, DType::kF32, 0.0625, whole.data(),
              DType::kF32, kCount);
  for (int parts = 2; parts <= kRows; parts *= 2) {
    std::vector<float> sums(parts * kCount);
    for (int part = 0; part < parts; ++part) {
      ReducePairs(inputs.data() + part * (kRows / parts) * kCount,
                  kRows / parts, DType::kF32, 1, sums.data() + part * kCount,
                  DType::kF32, kCount);
    }
    std::vector<float> again(kCount);
    ReducePairs(sums.data(), parts, DType::kF32, 0.0625, again.data(),
                DType::kF32, kCount);
    EXPECT_TRUE(SameBits(again, whole)) << parts << " parts";
  }
}

// Rows at any address, into several outputs, among them the rows themselves: as
// ranks with shared memory do.
template <class T>
void ExpectAllHaveTheSum(size_t rows, size_t outs, double factor) {
  for (const size_t count : {0, 1, 7, 63, 1025}) {
    Rng rng(count * 77 + rows);
    std::vector<T> inputs = RandomRow<T>(rng, rows * count);
    std::vector<T> want(count);
    ReducePairsRef(inputs.data(), static_cast<int>(rows), factor, want.data(),
                   count);
    std::vector<T> apart(count);
    std::vector<const void*> in;
    std::vector<void*> out;
    for (size_t row = 0; row < rows; ++row) {
      in.push_back(inputs.data() + row * count);
      if (row + 1 < outs) out.push_back(inputs.data() + row * count);
    }
    out.push_back(apart.data());
    ReducePairsToAll(in, out, count, DTypeOf<T>(), factor);
    for (void* const row : out) {
      EXPECT_TRUE(SameBits(std::span<const T>(static_cast<T*>(row), count),
                           std::span<const T>(want)))
          << rows << " rows of " << count << " times " << factor;
    }
  }
}

TEST(ReducePairsTest, EveryRowMayHaveTheSum) {
  OnEveryCpu([] {
    for (const size_t rows : {1, 2, 4, 8, 16, 64}) {
      for (const double factor : {1.0, 0.125}) {
        for (const size_t outs : {size_t{1}, size_t{2}, rows + 1}) {
          ExpectAllHaveTheSum<float>(rows, outs, factor);
          ExpectAllHaveTheSum<double>(rows, outs, factor);
        }
      }
    }
  });
}

TEST(ReducePairsDeathTest, TakesPowersOfTwoOnly) {
  const float inputs[3] = {};
  float out = 0;
  EXPECT_DEATH(ReducePairs(inputs, 3, DType::kF32, 1, &out, DType::kF32, 1),
               "1024");
  EXPECT_DEATH(ReducePairs(inputs, 0, DType::kF32, 1, &out, DType::kF32, 1),
               "1024");
  const void* const rows[] = {inputs, inputs, inputs};
  void* const outs[] = {&out};
  EXPECT_DEATH(ReducePairsToAll(rows, outs, 1, DType::kF32, 1), "1024");
}

}  // namespace
}  // namespace lockstep::kernels
