// Output types, errors before any byte moves, and the choice of the transpose.

#include "lockstep/axis_collective.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

using Kind = AxisCollectiveKind;
using testing::ElementsAre;
using testing::HasSubstr;

TensorType F32(std::vector<int64_t> shape) {
  return {DType::kF32, std::move(shape)};
}
TensorType I32(std::vector<int64_t> shape) {
  return {DType::kI32, std::move(shape)};
}

std::string ErrorOf(const AxisCollective& op, int size,
                    const std::vector<TensorType>& inputs) {
  const auto types = OutputTypes(op, size, 0, inputs);
  EXPECT_EQ(types.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(types.status().message());
}

TensorType TypeOf(const AxisCollective& op, int size, const TensorType& input) {
  const auto types = OutputTypes(op, size, 0, {input});
  EXPECT_TRUE(types.ok()) << types.status();
  return types.ok() && types->size() == 1 ? types->front() : TensorType{};
}

TEST(AxisCollectiveTest, NamesParseBack) {
  for (int k = 0; k <= static_cast<int>(Kind::kPrecv); ++k) {
    const auto kind = static_cast<Kind>(k);
    EXPECT_NE(Name(kind), "?");
    EXPECT_EQ(ParseAxisCollectiveKind(Name(kind)), kind);
  }
  EXPECT_EQ(ParseAxisCollectiveKind("all_reduce"), std::nullopt);
}

TEST(AxisCollectiveTest, ReductionsKeepTheShape) {
  EXPECT_EQ(TypeOf({.kind = Kind::kPsum}, 4, F32({2, 3})), F32({2, 3}));
  EXPECT_EQ(TypeOf({.kind = Kind::kPsum}, 4, {DType::kBool, {2}}), I32({2}));
  EXPECT_EQ(TypeOf({.kind = Kind::kPmean}, 4, {DType::kI16, {2}}), F32({2}));
  EXPECT_EQ(TypeOf({.kind = Kind::kPmean}, 4, {DType::kC64, {2}}),
            (TensorType{DType::kC64, {2}}));
  EXPECT_EQ(TypeOf({.kind = Kind::kPmax}, 4, {DType::kBool, {}}),
            (TensorType{DType::kBool, {}}));
  EXPECT_EQ(TypeOf({.kind = Kind::kPargmin}, 4, F32({2})), I32({2}));
}

TEST(AxisCollectiveTest, GathersInsertAnAxisOrExtendOne) {
  AxisCollective op{.kind = Kind::kAllGather};
  op.axis = 2;
  EXPECT_EQ(TypeOf(op, 4, F32({2, 3})), F32({2, 3, 4}));
  op.axis = -3;
  EXPECT_EQ(TypeOf(op, 4, F32({2, 3})), F32({4, 2, 3}));
  op.tiled = true;
  op.axis = -1;
  EXPECT_EQ(TypeOf(op, 4, F32({2, 3})), F32({2, 12}));
  op.axis = 2;
  EXPECT_EQ(ErrorOf(op, 4, {F32({2, 3})}),
            "all_gather: axis 2 is out of bounds for a tensor of rank 2");
}

TEST(AxisCollectiveTest, ScattersRemoveAnAxisOrDivideOne) {
  AxisCollective op{.kind = Kind::kPsumScatter, .axis = 1};
  EXPECT_EQ(TypeOf(op, 3, F32({2, 3})), F32({2}));
  EXPECT_EQ(ErrorOf(op, 2, {F32({2, 3})}),
            "psum_scatter: axis 1 of f32[2,3] must have one element for each "
            "of the 2 members");
  op.tiled = true;
  EXPECT_EQ(TypeOf(op, 3, F32({2, 6})), F32({2, 2}));
  EXPECT_EQ(ErrorOf(op, 4, {F32({2, 6})}),
            "psum_scatter: axis 1 of f32[2,6] is not divisible by the 4 "
            "members");
}

TEST(AxisCollectiveTest, ExchangesMoveTheAxis) {
  AxisCollective op{.kind = Kind::kAllToAll, .axis = 0, .concat_axis = 2};
  EXPECT_EQ(TypeOf(op, 4, F32({4, 2, 3})), F32({2, 3, 4}));
  EXPECT_THAT(ErrorOf(op, 3, {F32({4, 2, 3})}),
              HasSubstr("one element for each of the 3 members"));
  op.tiled = true;
  EXPECT_EQ(TypeOf(op, 2, F32({4, 2, 3})), F32({2, 2, 6}));
  op.concat_axis = 3;
  EXPECT_THAT(ErrorOf(op, 2, {F32({4, 2, 3})}), HasSubstr("axis 3"));
}

TEST(AxisCollectiveTest, RefusesPermutationsThatAreNone) {
  AxisCollective op{.kind = Kind::kPpermute, .pairs = {{0, 1}, {0, 2}}};
  EXPECT_EQ(ErrorOf(op, 3, {F32({})}),
            "ppermute: 0 is the source of two pairs");
  op.pairs = {{0, 1}, {2, 1}};
  EXPECT_EQ(ErrorOf(op, 3, {F32({})}),
            "ppermute: 1 is the target of two pairs");
  op.pairs = {{0, 3}};
  EXPECT_EQ(ErrorOf(op, 3, {F32({})}),
            "ppermute: the pair (0, 3) is outside of the 3 members");
  op = {.kind = Kind::kPshuffle, .sources = {0, 0}};
  EXPECT_EQ(ErrorOf(op, 2, {F32({})}),
            "pshuffle: the sources are not a permutation: 0 is there twice");
  op.sources = {0, 1};
  EXPECT_THAT(ErrorOf(op, 3, {F32({})}), HasSubstr("2 of 3 members"));
}

TEST(AxisCollectiveTest, RefusesSendsInACircle) {
  for (const Kind kind : {Kind::kPsend, Kind::kPrecv}) {
    AxisCollective op{.kind = kind, .pairs = {{0, 1}, {1, 2}}};
    EXPECT_TRUE(OutputTypes(op, 3, 0, {F32({})}).ok());
    op.pairs = {{0, 1}, {1, 0}};
    EXPECT_THAT(ErrorOf(op, 3, {F32({})}),
                HasSubstr("the pairs form a cycle through 0: use ppermute"));
    op.pairs = {{2, 2}};
    EXPECT_THAT(ErrorOf(op, 3, {F32({})}), HasSubstr("a cycle through 2"));
    op.pairs = {{0, 1}, {0, 2}};
    EXPECT_THAT(ErrorOf(op, 3, {F32({})}), HasSubstr("source of two pairs"));
  }
  EXPECT_THAT(*OutputTypes({.kind = Kind::kPsend}, 2, 0, {F32({3})}),
              ElementsAre());
}

TEST(AxisCollectiveTest, RefusesWhatHasNoMeaning) {
  EXPECT_THAT(ErrorOf({.kind = Kind::kPmax}, 2, {{DType::kC64, {}}}),
              HasSubstr("which has no order"));
  EXPECT_EQ(ErrorOf({.kind = Kind::kPargmax, .axes = {"x", "y"}}, 2, {F32({})}),
            "pargmax: takes one axis, not 2");
  EXPECT_EQ(ErrorOf({.kind = Kind::kPbroadcast, .root = 2}, 2, {F32({})}),
            "pbroadcast: the root 2 is outside of the 2 members");
  EXPECT_THAT(ErrorOf({.kind = Kind::kPsum}, 2, {F32({-1})}),
              HasSubstr("negative extent"));
  EXPECT_THAT(ErrorOf({.kind = Kind::kPsum}, 2, {F32({1 << 30, 1 << 30})}),
              HasSubstr("larger than 1 TiB"));
  // The input fits, the output does not.
  EXPECT_THAT(ErrorOf({.kind = Kind::kAllGather}, 1 << 20, {F32({1 << 30})}),
              HasSubstr("larger than 1 TiB"));
}

TEST(AxisCollectiveTest, RefusesRaggedVectorsThatDoNotFit) {
  const AxisCollective op{.kind = Kind::kRaggedAllToAll};
  const TensorType rows = F32({4, 2}), v = I32({2});
  EXPECT_TRUE(OutputTypes(op, 2, 0, {rows, rows, v, v, v, v}).ok());
  EXPECT_EQ(ErrorOf(op, 2, {rows, rows, v, F32({2}), v, v}),
            "ragged_all_to_all: send_sizes is f32, not i32 or i64");
  EXPECT_THAT(ErrorOf(op, 2, {rows, rows, v, v, I32({1, 2}), v}),
              HasSubstr("output_offsets must have rank 1"));
  EXPECT_THAT(ErrorOf(op, 2, {rows, rows, v, v, v, I32({4})}),
              HasSubstr("recv_sizes has 4 elements and input_offsets 2"));
  EXPECT_THAT(ErrorOf(op, 3, {rows, rows, v, v, v, v}),
              HasSubstr("2 slices are not divisible by the 3 members"));
  EXPECT_THAT(ErrorOf(op, 2, {rows, F32({4, 3}), v, v, v, v}),
              HasSubstr("do not fit"));
}

TEST(AxisCollectiveTest, OnlyTheRootHasOutputsOfAGather) {
  const AxisCollective op{.kind = Kind::kGather, .root = 1};
  EXPECT_THAT(*OutputTypes(op, 2, 1, {F32({3})}), ElementsAre(F32({2, 3})));
  EXPECT_THAT(*OutputTypes(op, 2, 0, {F32({3})}), ElementsAre());
}

TEST(AxisCollectiveTest, PsumNeedsAConventionForItsTranspose) {
  const AxisCollective op{.kind = Kind::kPsum, .axes = {"x"}};
  EXPECT_EQ(TransposeOf(op).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(TransposeOf(op, PsumTranspose::kSum)->kind, Kind::kPsum);
  EXPECT_EQ(TransposeOf(op, PsumTranspose::kIdentity)->kind, Kind::kPvary);
  EXPECT_EQ(*TransposeOf(*TransposeOf(op, PsumTranspose::kIdentity)), op);
}

TEST(AxisCollectiveTest, MaximaHaveNoTranspose) {
  for (const Kind kind : {Kind::kPmax, Kind::kPmin, Kind::kPprod,
                          Kind::kPargmax, Kind::kPargmin, Kind::kAxisIndex}) {
    EXPECT_EQ(TransposeOf({.kind = kind}).status().code(),
              absl::StatusCode::kInvalidArgument)
        << Name(kind);
  }
}

TEST(AxisCollectiveTest, RefusesWhatIsNoOperation) {
  const TensorType f32{DType::kF32, {2}};
  const auto error_of = [&](const AxisCollective& op, int size, int index) {
    return std::string(OutputTypes(op, size, index, {f32}).status().message());
  };
  EXPECT_EQ(error_of({.kind = static_cast<Kind>(99)}, 2, 0),
            "?: no collective is kind 99");
  EXPECT_EQ(error_of({.kind = Kind::kPsum}, 0, 0),
            "psum: no group of 0 members has a member 0");
  EXPECT_EQ(error_of({.kind = Kind::kPsum}, 2, 2),
            "psum: no group of 2 members has a member 2");
  EXPECT_EQ(error_of({.kind = Kind::kPvary, .reduce = ReduceOp::kMax}, 2, 0),
            "pvary: `reduce` is sum, or mean to divide by the members");
  EXPECT_EQ(
      error_of({.kind = Kind::kReduce, .reduce = static_cast<ReduceOp>(77)}, 2,
               0),
      "reduce: `reduce` is no reduction: 77");
}

}  // namespace
}  // namespace lockstep
