// Norms over blocks, against PyTorch over the whole field.

#include "lockstep/domain_norm.h"

#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/halo/torch_file.h"

namespace lockstep::halo_test {
namespace {

using testing::HasSubstr;

// One rank's block of rows.
template <typename T>
struct NormRank {
  NormLayout layout;
  std::vector<T> x, dy, y, dx;
};

template <typename T>
std::vector<T> RowsOf(const Tensor4& from, int64_t begin, int64_t end) {
  std::vector<T> rows;
  for (int64_t b = 0; b < from.shape[0]; ++b) {
    for (int64_t c = 0; c < from.shape[1]; ++c) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t j = 0; j < from.shape[3]; ++j) {
          rows.push_back(static_cast<T>(from.at(b, c, i, j)));
        }
      }
    }
  }
  return rows;
}

template <typename T>
void PutRows(const std::vector<T>& rows, int64_t begin, int64_t end,
             Tensor4& to) {
  size_t next = 0;
  for (int64_t b = 0; b < to.shape[0]; ++b) {
    for (int64_t c = 0; c < to.shape[1]; ++c) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t j = 0; j < to.shape[3]; ++j) {
          to.at(b, c, i, j) = rows[next++];
        }
      }
    }
  }
}

void AddTo(std::vector<double>& sum, const std::vector<double>& values) {
  sum.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
}

double NormDistance(const std::vector<double>& a,
                    const std::vector<double>& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double distance = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference =
        std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i]));
    if (!(difference <= distance)) distance = difference;
  }
  return distance;
}

// Cuts the case into blocks of rows, runs all ranks, and compares. psum is the
// sum of the ranks' vectors.
template <typename T>
void RunNorm(const TorchNormCase& torch, const std::vector<int64_t>& bounds,
             double tolerance) {
  const auto cast = [](const std::vector<double>& values) {
    return std::vector<T>(values.begin(), values.end());
  };
  const std::vector<T> gamma = cast(torch.gamma), beta = cast(torch.beta);
  const NormAffine<T> affine{gamma, beta, torch.epsilon};

  std::vector<NormRank<T>> ranks;
  std::vector<std::vector<NormMoments>> local;
  std::vector<double> sums;
  for (size_t r = 0; r + 1 < bounds.size(); ++r) {
    const int64_t rows = bounds[r + 1] - bounds[r];
    NormRank<T>& rank = ranks.emplace_back();
    rank.layout = {torch.kind, torch.x.shape[0], torch.x.shape[1],
                   rows * torch.x.shape[3], torch.groups};
    rank.x = RowsOf<T>(torch.x, bounds[r], bounds[r + 1]);
    rank.dy = RowsOf<T>(torch.dy, bounds[r], bounds[r + 1]);
    rank.y.resize(rank.x.size());
    rank.dx.resize(rank.x.size());
    local.push_back(*LocalMoments(rank.layout, rank.x));
    AddTo(sums, MomentSums(local.back()));
  }
  std::vector<double> squares;
  for (const auto& moments : local) {
    AddTo(squares, *CentredSquares(moments, sums));
  }
  const std::vector<NormMoments> total = *TotalMoments(sums, squares);
  for (size_t s = 0; s < total.size(); ++s) {
    NormMoments merged;
    for (const auto& moments : local) merged = Merge(merged, moments[s]);
    EXPECT_EQ(merged.count, total[s].count);
    EXPECT_NEAR(merged.mean, total[s].mean, 1e-13);
    EXPECT_NEAR(merged.m2, total[s].m2, 1e-12 * merged.m2);
  }

  std::vector<double> sets, dgamma, dbeta;
  for (NormRank<T>& rank : ranks) {
    const auto terms =
        LocalGradientSums(rank.layout, rank.x, rank.dy, total, affine);
    ASSERT_TRUE(terms.ok()) << terms.status();
    AddTo(sets, terms->sets);
    AddTo(dgamma, terms->gamma);
    AddTo(dbeta, terms->beta);
  }
  Tensor4 y = Tensor4::Zeros(torch.x.shape), dx = y;
  for (size_t r = 0; r < ranks.size(); ++r) {
    NormRank<T>& rank = ranks[r];
    ASSERT_TRUE(
        NormForward(rank.layout, rank.x, total, affine, absl::MakeSpan(rank.y))
            .ok());
    ASSERT_TRUE(NormBackward(rank.layout, rank.x, rank.dy, total, affine, sets,
                             absl::MakeSpan(rank.dx))
                    .ok());
    PutRows(rank.y, bounds[r], bounds[r + 1], y);
    PutRows(rank.dx, bounds[r], bounds[r + 1], dx);
  }
  EXPECT_LE(NormDistance(y.data, torch.y), tolerance);
  EXPECT_LE(NormDistance(dx.data, torch.dx), tolerance);
  EXPECT_LE(NormDistance(dgamma, torch.dgamma), tolerance);
  EXPECT_LE(NormDistance(dbeta, torch.dbeta), tolerance);
  if (torch.kind == NormKind::kBatch) {
    std::vector<double> mean, variance;
    for (const NormMoments& moments : total) {
      mean.push_back(moments.mean);
      variance.push_back(moments.UnbiasedVariance());
    }
    EXPECT_LE(NormDistance(mean, torch.mean), tolerance);
    EXPECT_LE(NormDistance(variance, torch.unbiased_variance), tolerance);
  }
}

// Uneven blocks of rows over 1 to 4 ranks; the last list has an empty block.
std::vector<std::vector<int64_t>> UnevenRows(int64_t rows) {
  return {{0, rows},
          {0, 1, rows},
          {0, rows - 1, rows},
          {0, 1, 3, rows},
          {0, 2, 3, rows - 1, rows},
          {0, 2, 2, rows}};
}

TEST(DomainNormTest, NormsOverBlocksComputeWhatPyTorchComputes) {
  const TorchCases cases = ReadTorchCases();
  EXPECT_EQ(cases.norms.size(), 15u);
  for (const TorchNormCase& torch : cases.norms) {
    for (const auto& bounds : UnevenRows(torch.x.shape[2])) {
      SCOPED_TRACE(torch.line + " over " + testing::PrintToString(bounds));
      RunNorm<double>(torch, bounds, 1e-12);
      // The inputs are exact in f32; outputs are rounded once.
      RunNorm<float>(torch, bounds, 0x1p-24);
    }
  }
}

// E[x^2] - E[x]^2 has no correct digit here.
TEST(DomainNormTest, ALargeMeanCostsNoDigitsOfTheVariance) {
  constexpr double kMean = 0x1p40;
  const std::vector<double> first{kMean - 1, kMean + 1, kMean + 3};
  const std::vector<double> second{kMean - 3, kMean + 0.5};
  const NormLayout layout{.kind = NormKind::kBatch, .batch = 1, .channels = 1};
  NormLayout three = layout, two = layout;
  three.cells = 3;
  two.cells = 2;
  const auto a = *LocalMoments(three, first), b = *LocalMoments(two, second);
  std::vector<double> sums, squares;
  AddTo(sums, MomentSums(a));
  AddTo(sums, MomentSums(b));
  AddTo(squares, *CentredSquares(a, sums));
  AddTo(squares, *CentredSquares(b, sums));
  // The values -1, 1, 3, -3 and 0.5 have mean 0.1, m2 20.25 - 5 * 0.01.
  const NormMoments total = TotalMoments(sums, squares)->front();
  EXPECT_EQ(total.count, 5);
  EXPECT_NEAR(total.mean - kMean, 0.1, 1e-3);
  EXPECT_NEAR(total.m2, 20.2, 1e-6);
  EXPECT_NEAR(Merge(a[0], b[0]).m2, 20.2, 1e-6);
}

// The mean of three values is no double, nor is the plain sum of many.
TEST(DomainNormTest, TheSecondPassCorrectsARoundedMean) {
  NormLayout layout{.kind = NormKind::kBatch, .batch = 1, .channels = 1};
  layout.cells = 3;
  const std::vector<double> three{0x1p53, 0x1p53 + 2, 0x1p53 + 2};
  EXPECT_NEAR(LocalMoments(layout, three)->front().m2, 8.0 / 3, 1e-12);
  layout.cells = 1 << 17;
  const std::vector<double> many(1 << 17, 0.1);
  const NormMoments moments = LocalMoments(layout, many)->front();
  EXPECT_EQ(moments.mean, 0.1);
  EXPECT_GE(moments.m2, 0);
  EXPECT_LE(moments.m2, 1e-24);
}

TEST(DomainNormTest, MergingWithNothingChangesNothing) {
  const NormMoments some{3, 2.5, 7};
  EXPECT_EQ(Merge(some, {}), some);
  EXPECT_EQ(Merge({}, some), some);
  EXPECT_EQ(Merge({}, {}), NormMoments{});
}

TEST(DomainNormTest, WithoutGammaAndBetaTheyAreOneAndZero) {
  const NormLayout layout{.batch = 1, .channels = 2, .cells = 2};
  const std::vector<float> x{1, 3, 5, 7}, ones{1, 1}, zeros{0, 0};
  const auto total = *LocalMoments(layout, x);
  std::vector<float> plain(4), affine(4);
  ASSERT_TRUE(
      NormForward(layout, x, total, NormAffine<float>{}, absl::MakeSpan(plain))
          .ok());
  ASSERT_TRUE(NormForward(layout, x, total, NormAffine<float>{ones, zeros},
                          absl::MakeSpan(affine))
                  .ok());
  EXPECT_EQ(plain, affine);
}

TEST(DomainNormTest, RefusesLayoutsAndSizesThatDoNotFit) {
  const auto error = [](const NormLayout& layout) {
    return std::string(NormSets(layout).status().message());
  };
  NormLayout layout{.batch = 2, .channels = 6, .cells = 4, .groups = 4};
  EXPECT_THAT(error(layout), HasSubstr("groups"));
  layout.groups = 0;
  EXPECT_THAT(error(layout), HasSubstr("groups"));
  layout.groups = 1;
  layout.cells = -1;
  EXPECT_THAT(error(layout), HasSubstr("[2, 6, -1]: negative"));
  layout.cells = int64_t{1} << 60;
  EXPECT_THAT(error(layout), HasSubstr("more than 2^62 elements"));
  layout.cells = 4;
  EXPECT_EQ(*NormSets(layout), 2);

  const std::vector<float> x(48), few(47), gamma(5);
  EXPECT_THAT(std::string(LocalMoments(layout, few).status().message()),
              HasSubstr("x has 47 elements; the layout has 48"));
  const auto total = *LocalMoments(layout, x);
  std::vector<float> y(48);
  const auto forward = [&](absl::Span<const NormMoments> moments,
                           const NormAffine<float>& affine, size_t size) {
    const absl::Status status = NormForward(layout, x, moments, affine,
                                            absl::MakeSpan(y).subspan(0, size));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(forward(total, {gamma, {}}, 48), HasSubstr("gamma has 5"));
  EXPECT_THAT(forward(total, {{}, gamma}, 48), HasSubstr("beta has 5"));
  EXPECT_THAT(forward(total, {}, 47), HasSubstr("y has 47"));
  EXPECT_THAT(forward(absl::MakeSpan(total).subspan(1), {}, 48),
              HasSubstr("total has 1"));
  const std::vector<double> sums(3);
  EXPECT_FALSE(CentredSquares(total, sums).ok());
  EXPECT_FALSE(TotalMoments(sums, sums).ok());
  EXPECT_FALSE(
      LocalGradientSums(layout, x, few, total, NormAffine<float>{}).ok());
  EXPECT_FALSE(NormBackward(layout, x, x, total, NormAffine<float>{}, sums,
                            absl::MakeSpan(y))
                   .ok());
}

}  // namespace
}  // namespace lockstep::halo_test
