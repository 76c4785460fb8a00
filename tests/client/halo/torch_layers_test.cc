// The single-process reference, and the distributed layers, against what
// PyTorch has computed.

#include <algorithm>
#include <cmath>
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/halo/distributed_conv.h"
#include "tests/client/halo/torch_file.h"

namespace lockstep::halo_test {
namespace {

constexpr double kTolerance = 1e-12;

double Distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double distance = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference =
        std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i]));
    if (!(difference <= distance)) distance = difference;
  }
  return distance;
}

void ExpectEqual(const Tensor4& y, const ConvGradients& gradients,
                 const TorchConvCase& torch) {
  EXPECT_EQ(y.shape, torch.y.shape);
  EXPECT_LE(Distance(y.data, torch.y.data), kTolerance);
  const auto& [x, weights] = torch.gradients;
  EXPECT_LE(Distance(gradients.x.data, x.data), kTolerance);
  EXPECT_LE(Distance(gradients.weights.weight.data, weights.weight.data),
            kTolerance);
  EXPECT_LE(Distance(gradients.weights.bias, weights.bias), kTolerance);
}

TEST(TorchLayersTest, TheReferenceComputesWhatPyTorchComputes) {
  const TorchCases cases = ReadTorchCases();
  EXPECT_EQ(cases.convs.size(), 633u);
  for (const TorchConvCase& torch : cases.convs) {
    SCOPED_TRACE(torch.line);
    ExpectEqual(
        ReferenceConv(torch.layer, torch.x, torch.weights),
        ReferenceGradients(torch.layer, torch.x, torch.weights, torch.dy),
        torch);
  }
}

// Even blocks, or ones of 1, 2, 3, ... cells with the rest at the end.
std::vector<int64_t> BlocksOf(int64_t cells, int64_t ranks, bool even) {
  std::vector<int64_t> bounds{0};
  for (int64_t r = 1; r < ranks; ++r) {
    bounds.push_back(even ? cells * r / ranks : r * (r + 1) / 2);
  }
  bounds.push_back(cells);
  return bounds;
}

int64_t RanksOf(const ConvDim& dim, int64_t cells, int64_t wanted) {
  return std::min(wanted, CountOutputs(dim, cells));
}

TEST(TorchLayersTest, DistributedLayersComputeWhatPyTorchComputes) {
  int64_t ranks = 0;
  for (const TorchConvCase& torch : ReadTorchCases().convs) {
    const int64_t rows = torch.x.shape[2], columns = torch.x.shape[3];
    for (const auto& [n, m, even] :
         std::vector<std::tuple<int64_t, int64_t, bool>>{
             {2, 1, true}, {3, 2, false}, {4, 3, true}}) {
      SCOPED_TRACE(torch.line);
      const PlaneBounds bounds{
          BlocksOf(rows, RanksOf(torch.layer[0], rows, n), even),
          BlocksOf(columns, RanksOf(torch.layer[1], columns, m), even)};
      const auto row_cut = CutConv(torch.layer[0], bounds[0]);
      const auto column_cut = CutConv(torch.layer[1], bounds[1]);
      ASSERT_TRUE(row_cut.ok()) << row_cut.status();
      ASSERT_TRUE(column_cut.ok()) << column_cut.status();
      const PlaneCut cut{*row_cut, *column_cut};
      ranks += static_cast<int64_t>(cut[0].blocks.size()) *
               static_cast<int64_t>(cut[1].blocks.size());
      ExpectEqual(
          DistributedConv(torch.layer, bounds, cut, torch.x, torch.weights),
          DistributedGradients(torch.layer, bounds, cut, torch.x, torch.weights,
                               torch.dy),
          torch);
    }
  }
  EXPECT_EQ(ranks, 6300);
}

}  // namespace
}  // namespace lockstep::halo_test
