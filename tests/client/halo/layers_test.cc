// Layers that users have, and what cannot be cut.

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/halo_layers.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kHuge = int64_t{1} << 62;

ConvCut CutOf(const ConvDim& conv, const std::vector<int64_t>& bounds,
              const std::vector<int64_t>& output_bounds = {}) {
  const auto cut = CutConv(conv, bounds, output_bounds);
  EXPECT_TRUE(cut.ok()) << cut.status();
  return cut.ok() ? *cut : ConvCut{};
}

std::string CutErrorOf(const ConvDim& conv, const std::vector<int64_t>& bounds,
                       const std::vector<int64_t>& output_bounds = {}) {
  const auto cut = CutConv(conv, bounds, output_bounds);
  EXPECT_EQ(cut.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(cut.status().message());
}

ConvDim Padded(int64_t kernel, int64_t stride, int64_t padding) {
  return {.kernel = kernel,
          .stride = stride,
          .padding_low = padding,
          .padding_high = padding};
}

TEST(CutConvTest, TheExampleOfTheHeader) {
  const auto cut =
      CutConv({.kernel = 3, .stride = 2, .padding_low = 1, .padding_high = 1},
              {0, 5, 10});
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(cut->Halo(-2, "y"), (HaloDim{-2, "y", 1, 1, HaloEdge::kZero}));
  EXPECT_EQ(cut->blocks[0], ConvBlock{});
  EXPECT_EQ(cut->blocks[1], (ConvBlock{.trim_low = 1, .trim_high = 1}));
  EXPECT_THAT(cut->output_bounds, ElementsAre(0, 3, 5));
}

TEST(CutConvTest, AHaloHasTheEdgeOfTheLayer) {
  ConvDim conv = Padded(5, 1, 2);
  conv.edge = HaloEdge::kConstant;
  conv.constant = 7;
  const HaloDim wanted{.dim = -2,
                       .axis = "y",
                       .low = 2,
                       .high = 2,
                       .edge = HaloEdge::kConstant,
                       .constant = 7};
  EXPECT_EQ(CutOf(conv, {0, 4, 9}).Halo(-2, "y"), wanted);
}

TEST(CutConvTest, OneBlockHasTheLayersPaddingAsHalo) {
  const ConvCut cut =
      CutOf({.kernel = 4, .padding_low = 1, .padding_high = 2}, {0, 8});
  EXPECT_EQ(cut.low, 1);
  EXPECT_EQ(cut.high, 2);
  EXPECT_EQ(cut.blocks[0], ConvBlock{});
}

// The halo of a kernel k with stride s and padding (k - s) / 2, over blocks
// that s divides: before the block (k - s) / 2, behind it the rest.
TEST(CutConvTest, StridedLayersHaveTheHalosOfTheirOverlap) {
  for (const auto& [kernel, stride] : std::vector<std::pair<int64_t, int64_t>>{
           {3, 1}, {5, 1}, {4, 2}, {8, 2}, {16, 2}, {32, 2}, {8, 4}}) {
    const int64_t padding = (kernel - stride) / 2;
    const ConvCut cut =
        CutOf(Padded(kernel, stride, padding), {0, 64, 128, 256});
    EXPECT_EQ(cut.low, padding) << kernel;
    EXPECT_EQ(cut.high, kernel - stride - padding) << kernel;
    EXPECT_THAT(cut.output_bounds,
                ElementsAre(0, 64 / stride, 128 / stride, 256 / stride));
    for (const ConvBlock& block : cut.blocks) EXPECT_EQ(block, ConvBlock{});
  }
}

TEST(CutConvTest, PatchesThatFitTheBlocksNeedNoHalo) {
  for (const bool transposed : {false, true}) {
    ConvDim conv = Padded(4, 4, 0);
    conv.transposed = transposed;
    const ConvCut cut = CutOf(conv, {0, 8, 12, 24});
    EXPECT_EQ(cut.low, 0);
    EXPECT_EQ(cut.high, 0);
    for (const ConvBlock& block : cut.blocks) EXPECT_EQ(block, ConvBlock{});
  }
}

TEST(CutConvTest, ALayerThatIsTransposedBackHasItsBounds) {
  const std::vector<int64_t> bounds{0, 6, 16, 20};
  const ConvCut down = CutOf(Padded(4, 2, 1), bounds);
  ConvDim up = Padded(4, 2, 1);
  up.transposed = true;
  EXPECT_EQ(CutOf(up, down.output_bounds).output_bounds, bounds);
}

TEST(CutConvTest, ACausalLayerKeepsTheBounds) {
  const ConvCut cut =
      CutOf({.kernel = 3, .dilation = 4, .padding_low = 8}, {0, 5, 6, 20});
  EXPECT_THAT(cut.output_bounds, ElementsAre(0, 5, 6, 20));
  EXPECT_EQ(cut.low, 8);
  EXPECT_EQ(cut.high, 0);
}

TEST(CutConvTest, EveryRankGetsAnOutput) {
  // The anchors 0, 4, 8 and 12 are all in the first block.
  const ConvCut cut = CutOf(Padded(1, 4, 0), {0, 13, 14, 15, 16});
  EXPECT_THAT(cut.output_bounds, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(cut.low, 9);
}

TEST(CutConvTest, ATransposedLayerCropsWhatItsNeighboursOwn) {
  ConvDim conv = Padded(4, 2, 1);
  conv.transposed = true;
  const ConvCut cut = CutOf(conv, {0, 3, 6});
  EXPECT_THAT(cut.output_bounds, ElementsAre(0, 6, 12));
  EXPECT_EQ(cut.low, 1);
  EXPECT_EQ(cut.high, 1);
  // Inputs 0-3 write -1 .. 8, inputs 2-5 write 3 .. 12.
  EXPECT_EQ(cut.blocks[0], (ConvBlock{1, 0, 0, 1, 3}));
  EXPECT_EQ(cut.blocks[1], (ConvBlock{0, 1, 0, 3, 1}));
}

TEST(CutConvTest, AKernelBelowTheStrideExtendsTheLocalOutput) {
  ConvDim conv = Padded(1, 3, 0);
  conv.transposed = true;
  const ConvCut cut = CutOf(conv, {0, 2, 4});  // writes 0, 3, 6 and 9
  EXPECT_THAT(cut.output_bounds, ElementsAre(0, 5, 10));
  EXPECT_EQ(cut.blocks[0].output_padding, 1);
}

TEST(CutConvTest, RefusesSettingsOutOfRange) {
  const std::vector<int64_t> bounds{0, 4, 8};
  EXPECT_THAT(CutErrorOf({.kernel = 0}, bounds), HasSubstr("kernel is 0"));
  EXPECT_THAT(CutErrorOf({.stride = -1}, bounds), HasSubstr("stride is -1"));
  EXPECT_THAT(CutErrorOf({.dilation = 0}, bounds), HasSubstr("dilation is 0"));
  EXPECT_THAT(CutErrorOf({.padding_low = -2}, bounds),
              HasSubstr("padding_low is -2"));
  EXPECT_THAT(CutErrorOf({.padding_high = kHuge + 1}, bounds),
              HasSubstr("padding_high is 4611686018427387905"));
  EXPECT_THAT(CutErrorOf({.output_padding = 1}, bounds),
              HasSubstr("not transposed"));
  ConvDim up = Padded(3, 2, 1);
  up.transposed = true;
  up.output_padding = 2;
  EXPECT_THAT(CutErrorOf(up, bounds), HasSubstr("output_padding 2 must be"));
  EXPECT_THAT(CutErrorOf({.edge = static_cast<HaloEdge>(9)}, bounds),
              HasSubstr("no edge has the number 9"));
}

TEST(CutConvTest, RefusesBoundsThatAreNoBlocks) {
  const ConvDim conv = Padded(3, 1, 1);
  EXPECT_THAT(CutErrorOf(conv, {}), HasSubstr("bounds has 0 offsets"));
  EXPECT_THAT(CutErrorOf(conv, {0}), HasSubstr("bounds has 1 offsets"));
  EXPECT_THAT(CutErrorOf(conv, {1, 8}), HasSubstr("begins with 1"));
  EXPECT_THAT(CutErrorOf(conv, {0, 4, 4, 8}),
              HasSubstr("rank 1 the empty block [4, 4)"));
  EXPECT_THAT(CutErrorOf(conv, {0, 5, 4}), HasSubstr("[5, 4)"));
  EXPECT_THAT(CutErrorOf(conv, {0, 4, 8}, {0, 8}),
              AllOf(HasSubstr("1 blocks of 8"), HasSubstr("2 of 8")));
  EXPECT_THAT(CutErrorOf(conv, {0, 4, 8}, {0, 4, 9}),
              AllOf(HasSubstr("2 blocks of 9"), HasSubstr("2 of 8")));
  EXPECT_THAT(CutErrorOf(conv, {0, 4, 8}, {0, 8, 8}),
              HasSubstr("output_bounds gives rank 1 the empty block [8, 8)"));
}

TEST(CutConvTest, SaysWhatCannotBeCut) {
  EXPECT_THAT(CutErrorOf(Padded(9, 1, 0), {0, 4, 8}),
              AllOf(HasSubstr("kernel 9"), HasSubstr("no output"),
                    HasSubstr("8 cells")));
  EXPECT_THAT(CutErrorOf(Padded(3, 4, 0), {0, 3, 6, 8}),
              HasSubstr("2 outputs over a field of 8 cells cannot be cut for "
                        "3 ranks"));
  ConvDim conv = Padded(3, 1, 4);
  conv.edge = HaloEdge::kReflect;
  EXPECT_THAT(CutErrorOf(conv, {0, 2, 4}),
              AllOf(HasSubstr("padding of 4"), HasSubstr("field of 4 cells")));
  conv = Padded(7, 1, 3);
  conv.edge = HaloEdge::kReflect;
  EXPECT_THAT(CutErrorOf(conv, {0, 3, 4}, {0, 1, 4}),
              AllOf(HasSubstr("halos of 5 cells"), HasSubstr("field of 4")));
  conv.edge = HaloEdge::kNone;
  EXPECT_THAT(CutErrorOf(conv, {0, 4, 8}), HasSubstr("padding of 3"));
  conv.edge = HaloEdge::kPeriodic;
  conv.transposed = true;
  EXPECT_THAT(CutErrorOf(conv, {0, 4, 8}), HasSubstr("must be zero or none"));
}

TEST(CutConvTest, SizesUpToTheLargestDoNotOverflow) {
  const ConvCut cut = CutOf(Padded(3, 2, 1), {0, kHuge / 2, kHuge});
  EXPECT_THAT(cut.output_bounds, ElementsAre(0, kHuge / 4, kHuge / 2));
  EXPECT_EQ(cut.low, 1);

  ConvDim conv{.kernel = kHuge, .dilation = kHuge};
  EXPECT_THAT(CutErrorOf(conv, {0, 4, kHuge}), HasSubstr("no output"));
  conv.padding_low = conv.padding_high = kHuge;
  EXPECT_THAT(CutErrorOf(conv, {0, 4, kHuge}), HasSubstr("no output"));
  conv = {.stride = kHuge, .transposed = true};
  EXPECT_THAT(CutErrorOf(conv, {0, 4, kHuge}),
              HasSubstr("more than 2^62 outputs"));
  conv = {
      .kernel = kHuge, .stride = kHuge, .dilation = kHuge, .transposed = true};
  EXPECT_THAT(CutErrorOf(conv, {0, kHuge}), HasSubstr("more than 2^62"));
  conv = Padded(1, 1, kHuge);
  EXPECT_THAT(CutErrorOf(conv, {0, 1}), HasSubstr("more than 2^62 outputs"));
  // One output that reads far beyond the field.
  conv = Padded(kHuge, 1, kHuge / 2);
  EXPECT_EQ(CutOf(conv, {0, 1}).low, kHuge / 2);
  conv = Padded(kHuge, 4, kHuge);
  EXPECT_THAT(CutErrorOf(conv, {0, kHuge}),
              HasSubstr("rank 0 needs a block of more than 2^63 - 1 cells"));
  // The crops remove nearly all that the transposed layer writes.
  conv = {.kernel = 3,
          .dilation = kHuge,
          .padding_low = kHuge,
          .padding_high = kHuge,
          .transposed = true};
  EXPECT_THAT(CutErrorOf(conv, {0, 1}),
              HasSubstr("rank 0 has a local output of more than 2^63 - 1"));
  const auto size = ConvOutputSize(Padded(3, 1, 1), kHuge + 1);
  EXPECT_THAT(std::string(size.status().message()),
              HasSubstr("the field's size is 4611686018427387905"));
  const auto least = std::numeric_limits<int64_t>::min();
  EXPECT_THAT(CutErrorOf({}, {least, 0}), HasSubstr("begins with -9223"));
}

}  // namespace
}  // namespace lockstep
