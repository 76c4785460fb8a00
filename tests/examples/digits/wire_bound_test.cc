#include "examples/digits/wire_bound.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/half.h"

namespace lockstep::digits {
namespace {

using kernels::ConvertTo;

template <class Half>
constexpr DType kWire =
    std::is_same_v<Half, kernels::BF16> ? DType::kBF16 : DType::kF16;

// One element on `ranks` ranks, over several steps.
template <class Half, class T>
class Element {
 public:
  Element(int ranks, bool feedback)
      : feedback_(feedback), carries_(ranks), carried_(ranks) {}

  // The error of this step's sum, relative to its bound.
  double Error(const std::vector<T>& gradients) {
    const int ranks = static_cast<int>(gradients.size());
    WireBound bound(kWire<Half>,
                    sizeof(T) == sizeof(double) ? DType::kF64 : DType::kF32,
                    ranks);
    float sum = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const T sent = gradients[rank] + carries_[rank];
      const Half cast = ConvertTo<Half>(sent);
      sum += ConvertTo<float>(cast);
      const double carried = bound.Add(gradients[rank], carried_[rank]);
      if (!feedback_) continue;
      carries_[rank] = sent - ConvertTo<T>(cast);
      carried_[rank] = carried;
      EXPECT_LE(std::abs(carries_[rank]), carried);
    }
    const double sent = ConvertTo<double>(ConvertTo<Half>(sum));
    return std::abs(sent - bound.sum()) / bound.error_max();
  }

 private:
  const bool feedback_;
  std::vector<T> carries_;
  std::vector<double> carried_;
};

// Tries all magnitudes of the 16-bit type, down to below its smallest.
template <class Half, class T>
double WorstOf(int ranks, bool feedback) {
  constexpr int kElements = 5000;
  constexpr int kSteps = 8;
  const int least = kWire<Half> == DType::kBF16 ? -140 : -28;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> mantissa(-2, 2);
  double worst = 0;
  for (int e = 0; e < kElements; ++e) {
    Element<Half, T> element(ranks, feedback);
    const int exponent = least + static_cast<int>(random() % (10 - least));
    for (int step = 0; step < kSteps; ++step) {
      std::vector<T> gradients(ranks);
      for (T& gradient : gradients) {
        gradient = static_cast<T>(std::ldexp(
            mantissa(random), exponent - static_cast<int>(random() % 4)));
      }
      worst = std::max(worst, element.Error(gradients));
    }
  }
  return worst;
}

TEST(WireBoundTest, HoldsAndIsNotTwiceTooLarge) {
  for (const bool feedback : {false, true}) {
    for (const int ranks : {2, 3, 4}) {
      for (const double worst :
           {WorstOf<kernels::BF16, float>(ranks, feedback),
            WorstOf<kernels::BF16, double>(ranks, feedback),
            WorstOf<kernels::F16, float>(ranks, feedback),
            WorstOf<kernels::F16, double>(ranks, feedback)}) {
        EXPECT_LE(worst, 1) << ranks << " ranks, feedback " << feedback;
        EXPECT_GT(worst, 0.5) << ranks << " ranks, feedback " << feedback;
      }
    }
  }
}

TEST(WireBoundTest, ToFirstOrderItIsTwiceTheRoundoffOfTheAbsoluteSum) {
  WireBound bound(DType::kBF16, DType::kF64, 2);
  bound.Add(3, 0);
  bound.Add(-1, 0);
  EXPECT_EQ(bound.sum(), 2);
  EXPECT_NEAR(bound.error_max(), 2 * 0x1p-8 * 4, 4 * 0x1p-15);
}

}  // namespace
}  // namespace lockstep::digits
