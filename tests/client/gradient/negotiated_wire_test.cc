// Means of negotiated mode with a 16-bit wire dtype: the sum over the ranks
// that announced the gradient, divided by their number, and rounded once.

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/half.h"
#include "tests/client/gradient/negotiated_job.h"

namespace lockstep::gradient {
namespace {

using kernels::ToF32;
using testing::Each;

constexpr int kWireRanks = 5;

struct WireType {
  const char* name;
  DType dtype;
  double unit;      // half the distance from 1 to the next number
  double smallest;  // half of the smallest number
  int exponent_min, exponent_max;  // of gradients in the random passes
};
const WireType kWireF16 = {
    "f16", DType::kF16, std::ldexp(1, -11), std::ldexp(1, -25), -27, 14};
const WireType kWireBF16 = {
    "bf16", DType::kBF16, std::ldexp(1, -8), std::ldexp(1, -134), -136, 20};

float Rounded(const WireType& half, float value) {
  return half.dtype == DType::kF16 ? ToF32(kernels::ToF16(value))
                                   : ToF32(kernels::ToBF16(value));
}

class NegotiatedWireTest : public NegotiatedJob,
                           public testing::WithParamInterface<WireType> {
 protected:
  NegotiatedWireTest() { spec_.buckets.wire_dtype = GetParam().dtype; }

  static std::vector<ParameterOptions> OneMean(int) {
    return {{.name = "w", .shape = {3}}};
  }

  // Each of the first `announcers` ranks submits `gradient`, which is also the
  // expected mean.
  void ExpectMeanOf(int announcers, const std::vector<float>& gradient) {
    RunWell(kWireRanks, OneMean, [&](Device& device) -> absl::Status {
      const bool gives = device.rank() < announcers;
      if (gives) {
        LOCKSTEP_TEST_TRY(device.sync.BeginPass({device.ids[0]}));
        std::copy(gradient.begin(), gradient.end(), device.view(0));
        LOCKSTEP_TEST_TRY(device.sync.Submit(device.ids[0]));
      }
      const auto verdict = device.sync.Finish();
      if (!verdict.ok()) return verdict.status();
      EXPECT_TRUE(verdict->finite);
      const auto view = *device.sync.Gradient<float>(device.ids[0]);
      if (gives) {
        EXPECT_EQ(std::vector<float>(view.begin(), view.end()), gradient);
      } else {
        EXPECT_THAT(view, Each(0));
      }
      return absl::OkStatus();
    });
  }
};

INSTANTIATE_TEST_SUITE_P(Over, NegotiatedWireTest,
                         testing::Values(kWireF16, kWireBF16),
                         [](const testing::TestParamInfo<WireType>& info) {
                           return std::string(info.param.name);
                         });

// A mean over the whole group would be a fifth of it: zero.
TEST_P(NegotiatedWireTest, TheSmallestGradientOfOneRankIsItsMean) {
  const float smallest = static_cast<float>(2 * GetParam().smallest);
  ExpectMeanOf(1, {smallest, -smallest, 3 * smallest});
}

// Their sum overflows f16.
TEST_P(NegotiatedWireTest, TheLargestGradientsOfSomeRanksAreTheirMean) {
  ExpectMeanOf(4, {60928, -60928, 32768});
}

// --- Random passes ----------------------------------------------------------

constexpr int kWireElements = 40;
constexpr int kWirePasses = 30;

// The actions of all ranks in one pass.
struct WirePass {
  std::vector<bool> announces;                // by rank, at least one
  std::vector<std::vector<float>> gradients;  // by rank

  WirePass(const WireType& half, uint64_t seed)
      : announces(kWireRanks), gradients(kWireRanks) {
    std::mt19937_64 random(seed);
    for (int rank = 0; rank < kWireRanks; ++rank)
      announces[rank] = random() % 2;
    announces[random() % kWireRanks] = true;
    const int range = half.exponent_max - half.exponent_min;
    for (auto& gradient : gradients) {
      for (int i = 0; i < kWireElements; ++i) {
        const double fraction =
            1 + static_cast<double>(random() % 65536) / 65536;
        const double sign = random() % 2 == 0 ? 1 : -1;
        // All ranks' gradients have one order of magnitude.
        const int exponent = half.exponent_min + i * range / kWireElements +
                             static_cast<int>(random() % 3);
        gradient.push_back(
            static_cast<float>(sign * std::ldexp(fraction, exponent)));
      }
    }
  }

  int announcers() const {
    return static_cast<int>(
        std::count(announces.begin(), announces.end(), true));
  }

  // The exact bits: halves added in f32 in rank order, divided and rounded
  // once.
  float Mean(const WireType& half, int i) const {
    float sum = 0;
    for (int rank = 0; rank < kWireRanks; ++rank) {
      if (announces[rank]) sum += Rounded(half, gradients[rank][i]);
    }
    return Rounded(half, sum * (1.0f / static_cast<float>(announcers())));
  }

  // The exact mean, and the largest error of a mean in static mode over these
  // ranks alone: each gradient is rounded once, and so is the mean.
  struct Bounded {
    double mean = 0;
    double error_max = 0;
  };
  Bounded ExactMean(const WireType& half, int i) const {
    double sum = 0;
    double cast_errors = 0;
    double sent = 0;
    for (int rank = 0; rank < kWireRanks; ++rank) {
      if (!announces[rank]) continue;
      const double gradient = gradients[rank][i];
      const double error = half.unit * std::fabs(gradient) + half.smallest;
      sum += gradient;
      cast_errors += error;
      sent += std::fabs(gradient) + error;
    }
    const double of_f32 =
        std::ldexp(kWireRanks + 1, -24);  // additions, division
    return {sum / announcers(),
            (cast_errors + sent * (half.unit + of_f32 * 2)) / announcers() +
                half.smallest};
  }
};

TEST_P(NegotiatedWireTest, RandomMeansHaveTheBitsAndTheBoundOfStaticOnes) {
  const WireType half = GetParam();
  const auto parameter = [](int) -> std::vector<ParameterOptions> {
    return {{.name = "w", .shape = {kWireElements}}};
  };
  RunWell(kWireRanks, parameter, [&half](Device& device) -> absl::Status {
    for (uint64_t seed = 0; seed < kWirePasses; ++seed) {
      const WirePass pass(half, seed);
      const bool gives = pass.announces[device.rank()];
      if (gives) {
        const std::vector<float>& gradient = pass.gradients[device.rank()];
        LOCKSTEP_TEST_TRY(device.sync.BeginPass({device.ids[0]}));
        LOCKSTEP_TEST_TRY(device.sync.Submit(device.ids[0], gradient.data(),
                                             kWireElements * sizeof(float)));
      }
      LOCKSTEP_TEST_TRY(device.sync.Finish().status());
      for (int i = 0; i < kWireElements; ++i) {
        const float got = device.view(0)[i];
        const std::string where =
            "seed " + std::to_string(seed) + ", rank " +
            std::to_string(device.rank()) + ", element " + std::to_string(i) +
            ", " + std::to_string(pass.announcers()) + " announcers";
        if (!gives) {
          EXPECT_EQ(got, 0) << where;
          continue;
        }
        EXPECT_EQ(got, pass.Mean(half, i)) << where;
        const WirePass::Bounded exact = pass.ExactMean(half, i);
        EXPECT_LE(std::fabs(got - exact.mean), exact.error_max) << where;
      }
    }
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace lockstep::gradient
