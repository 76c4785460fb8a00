#include "protocol/parameter.h"

#include <string>

#include "gtest/gtest.h"

namespace lockstep {
namespace {

Mesh TwoByTwo() { return {.axes = {{"data", 2}, {"pipe", 2}}}; }

Parameter Weight() { return {.name = "w", .shape = {128, 64}}; }

TEST(ParameterTest, CountsTheElementsOfItsShape) {
  EXPECT_EQ(ElementsOf(Weight()), 8192);
  EXPECT_EQ(ElementsOf({.name = "scalar"}), 1);
  EXPECT_EQ(ElementsOf({.name = "empty", .shape = {3, 0}}), 0);
}

TEST(ParameterTest, DescribesEverythingButItsName) {
  Parameter weight = Weight();
  EXPECT_EQ(Describe(weight), "[128,64] f32 mean");
  weight.axes = {"data"};
  EXPECT_EQ(Describe(weight), "[128,64] f32 mean over data");
  weight.replicated_over = {"pipe"};
  EXPECT_EQ(Describe(weight),
            "[128,64] f32 mean over data replicated over pipe");
}

TEST(ParameterTest, IsValidAsUsersWriteIt) {
  Parameter weight = Weight();
  EXPECT_TRUE(Validate(weight, TwoByTwo()).ok());
  weight.axes = {"data"};
  weight.replicated_over = {"pipe"};
  EXPECT_TRUE(Validate(weight, TwoByTwo()).ok());
}

struct Malformed {
  const char* what;
  const char* mentions;
  void (*damage)(Parameter&);
};

class MalformedParameterTest : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedParameterTest, IsRefusedWithTheFieldNamed) {
  Parameter weight = Weight();
  GetParam().damage(weight);
  const absl::Status status = Validate(weight, TwoByTwo());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(GetParam().mentions), std::string::npos)
      << status;
}

INSTANTIATE_TEST_SUITE_P(
    Each, MalformedParameterTest,
    testing::Values(
        Malformed{"EmptyName", "name", [](Parameter& p) { p.name = ""; }},
        Malformed{"LongName", "name",
                  [](Parameter& p) { p.name = std::string(1025, 'x'); }},
        Malformed{"BytesForAName", "name",
                  [](Parameter& p) { p.name = "w\xff"; }},
        Malformed{"Newline", "name", [](Parameter& p) { p.name = "w\n"; }},
        Malformed{"Integers", "dtype",
                  [](Parameter& p) { p.dtype = DType::kI32; }},
        Malformed{"NoDType", "dtype",
                  [](Parameter& p) { p.dtype = static_cast<DType>(0); }},
        Malformed{"Max", "op", [](Parameter& p) { p.op = ReduceOp::kMax; }},
        Malformed{"NegativeExtent", "shape",
                  [](Parameter& p) {
                    p.shape = {4, -1};
                  }},
        Malformed{"TooLarge", "shape",
                  [](Parameter& p) {
                    p.shape = {1 << 30, 1 << 30};
                  }},
        Malformed{"Overflow", "shape",
                  [](Parameter& p) {
                    p.shape = {int64_t{1} << 32, int64_t{1} << 32, 1};
                  }},
        Malformed{"HiddenBehindZero", "shape",
                  [](Parameter& p) {
                    p.shape = {0, int64_t{1} << 62};
                  }},
        Malformed{"UnknownAxis", "axes",
                  [](Parameter& p) { p.axes = {"model"}; }},
        Malformed{"AxisTwice", "axes",
                  [](Parameter& p) {
                    p.axes = {"data", "data"};
                  }},
        Malformed{"ReplicatedOverUnknown", "replicated_over",
                  [](Parameter& p) {
                    p.axes = {"data"};
                    p.replicated_over = {"model"};
                  }},
        Malformed{"ReplicatedOverReduced", "replicated_over",
                  [](Parameter& p) {
                    p.axes = {"data"};
                    p.replicated_over = {"data"};
                  }},
        Malformed{"ReplicatedBeyondTheWorld", "replicated_over",
                  [](Parameter& p) { p.replicated_over = {"pipe"}; }}),
    [](const auto& info) { return info.param.what; });

}  // namespace
}  // namespace lockstep
