// Every setting of a layer, over many bounds: the distributed layer and its
// gradients have the bits of the single-process ones. Values are small
// integers, so all sums are exact.

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/halo/distributed_conv.h"
#include "tests/support/sanitizers.h"

namespace lockstep::halo_test {
namespace {

using Bounds = std::vector<int64_t>;

Bounds BoundsOf(const std::vector<int64_t>& sizes) {
  Bounds bounds{0};
  for (const int64_t size : sizes) bounds.push_back(bounds.back() + size);
  return bounds;
}

// All ways to cut `cells` into non-empty blocks.
std::vector<Bounds> AllBounds(int64_t cells) {
  std::vector<Bounds> all;
  for (uint64_t cuts = 0; cuts < uint64_t{1} << (cells - 1); ++cuts) {
    Bounds& bounds = all.emplace_back(Bounds{0});
    for (int64_t cell = 1; cell < cells; ++cell) {
      if (cuts >> (cell - 1) & 1) bounds.push_back(cell);
    }
    bounds.push_back(cells);
  }
  return all;
}

constexpr int64_t kLists = kUnderSanitizer ? 1 : 29;

// Over 1 to 8 ranks: even blocks, blocks of one cell before or behind a large
// one, and sizes 1, 4, 2, 3, 1, 4, ... with the rest at the end. Under a
// sanitizer only the last of them.
std::vector<Bounds> SomeBounds(int64_t cells) {
  std::vector<Bounds> some;
  for (int64_t n = 1; n <= 8; ++n) {
    std::vector<int64_t> even, uneven;
    for (int64_t r = 0; r < n; ++r) {
      even.push_back(cells * (r + 1) / n - cells * r / n);
      uneven.push_back(std::vector<int64_t>{1, 4, 2, 3}[r % 4]);
    }
    some.push_back(BoundsOf(even));
    if (n == 1) continue;
    std::vector<int64_t> ones(n, 1);
    ones.back() = cells - n + 1;
    some.push_back(BoundsOf(ones));
    std::reverse(ones.begin(), ones.end());
    some.push_back(BoundsOf(ones));
    uneven.back() = 0;
    uneven.back() =
        cells - std::accumulate(uneven.begin(), uneven.end(), int64_t{0});
    some.push_back(BoundsOf(uneven));
  }
  if (kUnderSanitizer) some.erase(some.begin(), some.end() - 1);
  return some;
}

std::string Describe(const ConvDim& c, const Bounds& bounds) {
  return absl::StrCat(c.transposed ? "transposed " : "", "k ", c.kernel, " s ",
                      c.stride, " d ", c.dilation, " p ", c.padding_low, "+",
                      c.padding_high, " op ", c.output_padding, " edge ",
                      static_cast<int>(c.edge), " bounds ",
                      absl::StrJoin(bounds, ","));
}

Tensor4 Integers(std::array<int64_t, 4> shape, uint32_t seed) {
  Tensor4 tensor = Tensor4::Zeros(shape);
  uint32_t state = seed;
  for (double& value : tensor.data) {
    state = state * 1103515245u + 12345u;
    value = static_cast<double>((state >> 16) % 9) - 4;
  }
  return tensor;
}

// A layer in one dimension, and what it computes on one process.
struct LineCase {
  LineCase(const ConvDim& conv, int64_t cells)
      : layer{conv, ConvDim{}},
        x(Integers({1, 1, cells, 1}, 1)),
        weights{Integers({1, 1, conv.kernel, 1}, 2), {3}},
        y(ReferenceConv(layer, x, weights)),
        dy(Integers(y.shape, 4)),
        gradients(ReferenceGradients(layer, x, weights, dy)) {}

  ConvPlane layer;
  Tensor4 x;
  ConvWeights weights;
  Tensor4 y, dy;
  ConvGradients gradients;
};

// What is wrong with the distributed layer; empty if nothing.
std::string FaultOf(const LineCase& one, const Bounds& bounds,
                    const ConvCut& cut) {
  const PlaneBounds plane{bounds, Bounds{0, 1}};
  const PlaneCut cuts{cut, ConvCut{0, 0, HaloEdge::kZero, 0, {0, 1}, {{}}}};
  try {
    if (DistributedConv(one.layer, plane, cuts, one.x, one.weights) != one.y) {
      return "the output differs";
    }
    if (DistributedGradients(one.layer, plane, cuts, one.x, one.weights,
                             one.dy) != one.gradients) {
      return "a gradient differs";
    }
  } catch (const std::logic_error& error) {
    return error.what();
  }
  int64_t spare_low = cut.low, spare_high = cut.high;
  for (const ConvBlock& block : cut.blocks) {
    spare_low = std::min(spare_low, block.trim_low);
    spare_high = std::min(spare_high, block.trim_high);
    const ConvDim& conv = one.layer[0];
    if (block.output_padding > 0 &&
        block.output_padding >= std::max(conv.stride, conv.dilation)) {
      return "frameworks refuse the output padding of a block";
    }
  }
  // With edge none the ranks at the field's edge have no halo to drop.
  if (one.layer[0].edge != HaloEdge::kNone && (spare_low || spare_high)) {
    return "no rank needs all of the halo";
  }
  return "";
}

enum class Outcome {
  kCut,
  kNoOutput,
  kTooFewOutputs,
  kPaddingWithoutEdge,
  kReflectedPadding,
  kReflectedHalo,
};

// What CutConv must say of valid settings and bounds.
Outcome ExpectedOutcome(const ConvDim& conv, const Bounds& bounds) {
  const int64_t cells = bounds.back();
  const int64_t padding = std::max(conv.padding_low, conv.padding_high);
  if (conv.edge == HaloEdge::kNone && !conv.transposed && padding > 0) {
    return Outcome::kPaddingWithoutEdge;
  }
  if (conv.edge == HaloEdge::kReflect && padding >= cells) {
    return Outcome::kReflectedPadding;
  }
  const int64_t outputs = CountOutputs(conv, cells);
  if (outputs == 0) return Outcome::kNoOutput;
  if (outputs < static_cast<int64_t>(bounds.size()) - 1) {
    return Outcome::kTooFewOutputs;
  }
  if (conv.edge == HaloEdge::kReflect) {
    ConvDim zero = conv;
    zero.edge = HaloEdge::kZero;
    const auto cut = CutConv(zero, bounds);
    if (!cut.ok()) return Outcome::kCut;
    if (std::max(cut->low, cut->high) >= cells) return Outcome::kReflectedHalo;
  }
  return Outcome::kCut;
}

// Counts the settings by outcome; stops at the first fault.
class ConvGrid {
 public:
  // False after a fault.
  bool Check(const ConvDim& conv, const std::vector<Bounds>& all) {
    const int64_t cells = all.front().back();
    std::optional<LineCase> one;
    for (const Bounds& bounds : all) {
      const Outcome expected = ExpectedOutcome(conv, bounds);
      ++counts_[static_cast<size_t>(expected)];
      const auto cut = CutConv(conv, bounds);
      if (cut.ok() != (expected == Outcome::kCut)) {
        ADD_FAILURE() << Describe(conv, bounds) << ": " << cut.status();
        return false;
      }
      if (!cut.ok()) {
        EXPECT_EQ(cut.status().code(), absl::StatusCode::kInvalidArgument);
        continue;
      }
      if (!one.has_value()) one.emplace(conv, cells);
      const std::string fault = FaultOf(*one, bounds, *cut);
      if (!fault.empty()) {
        ADD_FAILURE() << Describe(conv, bounds) << ": " << fault;
        return false;
      }
      const bool keeps_size =
          conv.stride == 1 && cut->output_bounds.back() == cells;
      if (keeps_size && cut->output_bounds != bounds) {
        ADD_FAILURE() << Describe(conv, bounds) << ": outputs "
                      << absl::StrJoin(cut->output_bounds, ",");
        return false;
      }
    }
    return true;
  }

  int64_t count(Outcome outcome) const {
    return counts_[static_cast<size_t>(outcome)];
  }

 private:
  std::array<int64_t, 6> counts_{};
};

// Calls visit with each kernel, stride, dilation and both paddings below the
// limits (the others begin with 1), until it returns false.
template <typename Visit>
void ForEachSetting(int64_t kernels, int64_t strides, int64_t dilations,
                    int64_t paddings, Visit visit) {
  for (int64_t k = 1; k <= kernels; ++k) {
    for (int64_t s = 1; s <= strides; ++s) {
      for (int64_t d = 1; d <= dilations; ++d) {
        for (int64_t p = 0; p <= paddings; ++p) {
          for (int64_t q = 0; q <= paddings; ++q) {
            if (!visit(ConvDim{k, s, d, p, q})) return;
          }
        }
      }
    }
  }
}

// Large enough that all settings have an output for each of 8 ranks. Primes, so
// that no stride divides them.
constexpr int64_t kCells = 47;
constexpr int64_t kCellsBeforeTransposed = 23;

TEST(ConvGridTest, EveryConvolutionEqualsOneProcess) {
  ConvGrid grid;
  const auto bounds = SomeBounds(kCells);
  ForEachSetting(7, 4, 3, 3, [&](ConvDim conv) {
    for (const HaloEdge edge : kAllHaloEdges) {
      conv.edge = edge;
      conv.constant = edge == HaloEdge::kConstant ? 5 : 0;
      if (!grid.Check(conv, bounds)) return false;
    }
    return true;
  });
  // 7 kernels, 4 strides, 3 dilations, 4 x 4 paddings; 5 edges, and none
  // without padding.
  const int64_t shapes = 7 * 4 * 3;
  EXPECT_EQ(static_cast<int64_t>(bounds.size()), kLists);
  EXPECT_EQ(grid.count(Outcome::kCut), shapes * (16 * 5 + 1) * kLists);
  EXPECT_EQ(grid.count(Outcome::kPaddingWithoutEdge), shapes * 15 * kLists);
}

TEST(ConvGridTest, EveryTransposedConvolutionEqualsOneProcess) {
  ConvGrid grid;
  const auto bounds = SomeBounds(kCellsBeforeTransposed);
  ForEachSetting(7, 4, 3, 3, [&](ConvDim conv) {
    conv.transposed = true;
    for (const HaloEdge edge : {HaloEdge::kZero, HaloEdge::kNone}) {
      conv.edge = edge;
      for (int64_t o = 0; o < std::max(conv.stride, conv.dilation); ++o) {
        conv.output_padding = o;
        if (!grid.Check(conv, bounds)) return false;
      }
    }
    return true;
  });
  // 34: the output paddings of all strides and dilations.
  EXPECT_EQ(grid.count(Outcome::kCut), 7 * 34 * 16 * 2 * kLists);
}

TEST(ConvGridTest, SmallFieldsAreCutInEveryWay) {
  ConvGrid grid;
  for (int64_t cells = 1; cells <= 5; ++cells) {
    const auto bounds = AllBounds(cells);
    ForEachSetting(4, 3, 2, 2, [&](ConvDim conv) {
      for (const HaloEdge edge : kAllHaloEdges) {
        conv.edge = edge;
        conv.constant = edge == HaloEdge::kConstant ? 5 : 0;
        if (!grid.Check(conv, bounds)) return false;
      }
      conv.edge = HaloEdge::kZero;
      conv.transposed = true;
      for (int64_t o = 0; o < std::max(conv.stride, conv.dilation); ++o) {
        conv.output_padding = o;
        if (!grid.Check(conv, bounds)) return false;
      }
      return true;
    });
  }
  EXPECT_EQ(grid.count(Outcome::kCut), 32701);
  EXPECT_EQ(grid.count(Outcome::kTooFewOutputs), 11948);
  EXPECT_EQ(grid.count(Outcome::kPaddingWithoutEdge), 5952);
  EXPECT_EQ(grid.count(Outcome::kReflectedHalo), 10);
  EXPECT_EQ(grid.count(Outcome::kReflectedPadding), 432);
  EXPECT_EQ(grid.count(Outcome::kNoOutput), 3641);
}

// Every pair of bounds of a small field and of its output.
TEST(ConvGridTest, OutputsBelongToTheRanksThatTheCallerNames) {
  int64_t cuts = 0, refused = 0;
  const auto check = [&](const ConvDim& conv, int64_t cells) {
    const int64_t outputs = CountOutputs(conv, cells);
    if (outputs == 0 || outputs > 8) return true;
    const LineCase one(conv, cells);
    for (const Bounds& bounds : AllBounds(cells)) {
      for (const Bounds& owned : AllBounds(outputs)) {
        if (owned.size() != bounds.size()) continue;
        const auto cut = CutConv(conv, bounds, owned);
        if (!cut.ok()) {
          EXPECT_EQ(conv.edge, HaloEdge::kReflect) << cut.status();
          ++refused;
          continue;
        }
        ++cuts;
        EXPECT_EQ(cut->output_bounds, owned);
        const std::string fault = FaultOf(one, bounds, *cut);
        if (!fault.empty()) {
          ADD_FAILURE() << Describe(conv, bounds) << " outputs "
                        << absl::StrJoin(owned, ",") << ": " << fault;
          return false;
        }
      }
    }
    return true;
  };
  ForEachSetting(3, 2, 2, 2, [&](ConvDim conv) {
    for (const HaloEdge edge :
         {HaloEdge::kZero, HaloEdge::kPeriodic, HaloEdge::kReflect}) {
      conv.edge = edge;
      if (!check(conv, 4)) return false;
    }
    conv.edge = HaloEdge::kZero;
    conv.transposed = true;
    for (int64_t o = 0; o < std::max(conv.stride, conv.dilation); ++o) {
      conv.output_padding = o;
      if (!check(conv, 4)) return false;
    }
    return true;
  });
  EXPECT_EQ(cuts, 15163);
  EXPECT_EQ(refused, 36);
}

}  // namespace
}  // namespace lockstep::halo_test
