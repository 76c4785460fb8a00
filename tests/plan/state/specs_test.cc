// What one rank can see to be wrong with the state that it registers.

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protocol/state.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

const Mesh kGrid = {{{"data", 2}, {"model", 3}}};

StateSpec Matrix() {
  return {.name = "w",
          .shape = {4, 6},
          .cuts = {{.dim = -1, .axes = {"model"}}, {.dim = 0, .axes = {}}}};
}

TEST(StateSpecTest, CountsDimensionsFromTheFirst) {
  StateSpec spec = Matrix();
  spec.cuts.push_back({.dim = -3, .axes = {"data"}});
  spec.shape = {2, 4, 6};
  spec.cuts[1].dim = 1;
  const auto made = Normalized(spec, kGrid);
  ASSERT_TRUE(made.ok()) << made.status();
  const std::vector<StateCut> cuts = {{0, {"data"}}, {2, {"model"}}};
  EXPECT_EQ(made->cuts, cuts);
  EXPECT_EQ(Describe(*made), "f32[*,4,*], dim 0 over data, dim 2 over model");
  EXPECT_EQ(*Normalized(*made, kGrid), *made);
}

TEST(StateSpecTest, ScalarsAndEmptyBlocksAreState) {
  EXPECT_TRUE(Normalized({.name = "step"}, kGrid).ok());
  EXPECT_TRUE(Normalized({.name = "none", .shape = {0, 7}}, kGrid).ok());
  EXPECT_TRUE(
      Normalized({.name = "part", .shape = {3}, .slice = StateSlice{3, 0}},
                 kGrid)
          .ok());
}

TEST(StateSpecTest, NamesWhatIsWrong) {
  const struct {
    std::function<void(StateSpec&)> spoil;
    std::string said;
  } cases[] = {
      {[](StateSpec& s) { s.name = ""; }, "1 to 512 bytes"},
      {[](StateSpec& s) { s.name = "a\nb"; }, "a\\nb"},
      {[](StateSpec& s) { s.name.assign(513, 'x'); }, "1 to 512 bytes"},
      {[](StateSpec& s) { s.name = "__metadata__"; }, "reserves"},
      {[](StateSpec& s) { s.dtype = DType{99}; }, "dtype 99 is unknown"},
      {[](StateSpec& s) { s.dtype = DType::kC128; }, "cannot have c128"},
      {[](StateSpec& s) { s.shape[0] = -1; }, "the block [-1,6]"},
      {[](StateSpec& s) { s.shape.resize(9, 1); }, "9 dimensions"},
      {[](StateSpec& s) { s.shape[0] = int64_t{1} << 36; }, "more than"},
      {[](StateSpec& s) {
         s.shape = {int64_t{1} << 62, int64_t{1} << 62};
       },
       "more than"},
      {[](StateSpec& s) { s.cuts[0].dim = 2; }, "dim 2 of a tensor with 2"},
      {[](StateSpec& s) { s.cuts[0].dim = -3; }, "dim -3 of a tensor with 2"},
      {[](StateSpec& s) { s.cuts[1].dim = 1; }, "dim 1 is cut twice"},
      {[](StateSpec& s) { s.cuts[0].axes = {"pipe"}; },
       "over pipe, which is no axis of mesh data=2,model=3"},
      {[](StateSpec& s) { s.cuts[1].axes = {"model"}; },
       "axis model cuts dim 1 and dim 0"},
      {[](StateSpec& s) {
         s.cuts[0].axes = {"data", "data"};
       },
       "axis data cuts dim 1 and dim 1"},
      {[](StateSpec& s) {
         s.slice = {-1, 2};
       },
       "2 elements from -1"},
      {[](StateSpec& s) {
         s.slice = {0, -2};
       },
       "-2 elements from 0"},
      {[](StateSpec& s) {
         s.slice = {20, 5};
       },
       "5 elements from 20"},
      {[](StateSpec& s) {
         s.slice = {25, 0};
       },
       "not in the block [4,6]"},
      {[](StateSpec& s) {
         s.slice = {0, 1};
         s.sliced_like = "p";
       },
       "has a slice, and is sliced like"},
      {[](StateSpec& s) { s.sliced_like = "\x01"; }, "names no parameter"},
  };
  for (const auto& wrong : cases) {
    StateSpec spec = Matrix();
    ASSERT_TRUE(Normalized(spec, kGrid).ok());
    wrong.spoil(spec);
    const auto made = Normalized(spec, kGrid);
    EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument)
        << wrong.said;
    EXPECT_THAT(std::string(made.status().message()), HasSubstr(wrong.said));
  }
}

}  // namespace
}  // namespace lockstep
