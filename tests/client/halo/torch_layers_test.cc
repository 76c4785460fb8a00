// The single-process reference, and the distributed layers, against what
// PyTorch has computed.

#include <cmath>

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

// 0 where the layer cannot be cut for so many ranks.
int64_t Ranks(const ConvDim& dim, int64_t cells, int64_t wanted) {
  return std::min({wanted, cells, CountOutputs(dim, cells)});
}

TEST(TorchLayersTest, DistributedLayersComputeWhatPyTorchComputes) {
  int64_t compared = 0, reflected = 0;
  for (const TorchConvCase& torch : ReadTorchCases().convs) {
    const int64_t rows = torch.x.shape[2], columns = torch.x.shape[3];
    for (const auto& [n, m, even] :
         std::vector<std::tuple<int64_t, int64_t, bool>>{
             {2, 1, true}, {3, 2, false}, {4, 3, true}}) {
      SCOPED_TRACE(torch.line);
      const PlaneBounds bounds{
          BlocksOf(rows, Ranks(torch.layer[0], rows, n), even),
          BlocksOf(columns, Ranks(torch.layer[1], columns, m), even)};
      const auto cut_rows = CutConv(torch.layer[0], bounds[0]);
      const auto cut_columns = CutConv(torch.layer[1], bounds[1]);
      if (!cut_rows.ok() || !cut_columns.ok()) {
        const absl::Status& status =
            cut_rows.ok() ? cut_columns.status() : cut_rows.status();
        EXPECT_THAT(std::string(status.message()),
                    testing::HasSubstr("reflect"));
        ++reflected;
        continue;
      }
      ++compared;
      const PlaneCut cut{*cut_rows, *cut_columns};
      ExpectEqual(
          DistributedConv(torch.layer, bounds, cut, torch.x, torch.weights),
          DistributedGradients(torch.layer, bounds, cut, torch.x, torch.weights,
                               torch.dy),
          torch);
    }
  }
  EXPECT_EQ(compared, 0);
  EXPECT_EQ(reflected, 0);
}

}  // namespace
}  // namespace lockstep::halo_test
