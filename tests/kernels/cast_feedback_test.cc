#include "kernels/cast_feedback.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cast_feedback_ref.h"
#include "tests/kernels/kernel_testing.h"

namespace lockstep::kernels {
namespace {

template <class From, class To>
void ExpectTwins() {
  for (const size_t count : {0, 1, 7, 1023, 1024, 1025, 5001}) {
    Rng rng(count);
    const std::vector<From> src = RandomRow<From>(rng, count + 1);
    const std::vector<From> residual = RandomRow<From>(rng, count + 1);
    std::vector<To> got = RandomRow<To>(rng, count + 1);
    std::vector<To> want = got;
    std::vector<From> next = residual;  // in place
    std::vector<From> want_next = residual;
    // From element 1, so that nothing is aligned to a vector.
    CastFeedback(src.data() + 1, next.data() + 1, DTypeOf<From>(),
                 got.data() + 1, DTypeOf<To>(), next.data() + 1, count);
    CastFeedbackRef(src.data() + 1, residual.data() + 1, want.data() + 1,
                    want_next.data() + 1, count);
    EXPECT_TRUE(SameBits(got, want)) << count << " elements";
    EXPECT_TRUE(SameBits(next, want_next)) << count << " elements";
  }
}

TEST(CastFeedbackTest, GivesTheBitsOfTheReference) {
  OnEveryCpu([] {
    ExpectTwins<float, BF16>();
    ExpectTwins<float, F16>();
    ExpectTwins<double, BF16>();
    ExpectTwins<double, F16>();
  });
}

// A sixth of bf16's step at 1: a plain cast loses it every time.
TEST(CastFeedbackTest, LosesNothingOverManySteps) {
  const float gradient = 1 + 0x1p-8f / 3;
  float residual = 0;
  double sum = 0;
  constexpr int kSteps = 1000;
  for (int step = 0; step < kSteps; ++step) {
    BF16 sent = {};
    CastFeedback(&gradient, &residual, DType::kF32, &sent, DType::kBF16,
                 &residual, 1);
    sum += ConvertTo<double>(sent);
  }
  EXPECT_NEAR(sum + residual, kSteps * double{gradient}, 1e-4);
  EXPECT_LE(std::abs(residual), 0x1p-8);
}

TEST(CastFeedbackDeathTest, TakesNoHalvesAndGivesNothingElse) {
  float real = 0;
  BF16 half = {};
  EXPECT_DEATH(
      CastFeedback(&half, &half, DType::kBF16, &half, DType::kBF16, &half, 1),
      "f32");
  EXPECT_DEATH(
      CastFeedback(&real, &real, DType::kF32, &real, DType::kF32, &real, 1),
      "f16");
}

}  // namespace
}  // namespace lockstep::kernels
