#include "client/checkpoint/tiling.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::checkpoint {
namespace {

using testing::HasSubstr;

TEST(TilingTest, PartsThatFillTheWholeAreRight) {
  EXPECT_EQ(TilingFault({4, 6}, {{{0, 0}, {4, 6}}}), "");
  EXPECT_EQ(TilingFault({4, 6}, {{{0, 3}, {4, 3}}, {{0, 0}, {4, 3}}}), "");
  EXPECT_EQ(TilingFault({5}, {{{0}, {1}}, {{1}, {1}}, {{2}, {3}}}), "");
  // Five boxes around each other, which no straight cut divides.
  EXPECT_EQ(TilingFault({3, 3}, {{{0, 0}, {1, 2}},
                                 {{0, 2}, {2, 1}},
                                 {{2, 1}, {1, 2}},
                                 {{1, 0}, {2, 1}},
                                 {{1, 1}, {1, 1}}}),
            "");
}

TEST(TilingTest, AScalarHasOnePart) {
  EXPECT_EQ(TilingFault({}, {{{}, {}}}), "");
  EXPECT_THAT(TilingFault({}, {}), HasSubstr("1 of 1"));
  EXPECT_THAT(TilingFault({}, {{{}, {}}, {{}, {}}}), HasSubstr("both"));
}

TEST(TilingTest, ATensorWithoutElementsNeedsNoPart) {
  EXPECT_EQ(TilingFault({0, 3}, {}), "");
  EXPECT_EQ(TilingFault({0, 3}, {{{0, 0}, {0, 3}}}), "");
  EXPECT_NE(TilingFault({0, 3}, {{{0, 0}, {1, 3}}}), "");
}

TEST(TilingTest, FaultsNameTheParts) {
  EXPECT_THAT(TilingFault({4}, {{{0}, {2}}, {{1}, {3}}}),
              HasSubstr("slice 0 at [0] of shape [2] and slice 1"));
  EXPECT_THAT(TilingFault({4}, {{{0}, {2}}, {{3}, {1}}}),
              HasSubstr("1 of 4 elements"));
  EXPECT_THAT(TilingFault({4}, {}), HasSubstr("4 of 4"));
  EXPECT_THAT(TilingFault({4}, {{{0}, {4}}, {{4}, {0}}}),
              HasSubstr("slice 1 at [4] of shape [0] has no elements"));
  for (const TensorBox& outside : std::vector<TensorBox>{{{0}, {5}},
                                                         {{-1}, {5}},
                                                         {{4}, {1}},
                                                         {{2}, {-1}},
                                                         {{0, 0}, {4, 1}},
                                                         {{0}, {}},
                                                         {{1}, {INT64_MAX}}}) {
    EXPECT_THAT(TilingFault({4}, {outside}), HasSubstr("not inside"));
  }
}

// Cuts the whole at random, then perhaps moves a part; compared with painting.
TEST(TilingTest, AgreesWithCountingTheElements) {
  int right = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<int64_t> shape;
    for (uint64_t d = 1 + random() % 3; d > 0; --d) {
      shape.push_back(1 + random() % 5);
    }
    std::vector<TensorBox> boxes = {
        {std::vector<int64_t>(shape.size(), 0), shape}};
    for (uint64_t cuts = random() % 6; cuts > 0; --cuts) {
      TensorBox& box = boxes[random() % boxes.size()];
      const size_t d = random() % shape.size();
      if (box.shape[d] < 2) continue;
      const int64_t at = 1 + random() % (box.shape[d] - 1);
      TensorBox rest = box;
      rest.begin[d] += at;
      rest.shape[d] -= at;
      box.shape[d] = at;
      boxes.push_back(rest);
    }
    if (random() % 2 == 0) {
      TensorBox& box = boxes[random() % boxes.size()];
      const size_t d = random() % shape.size();
      (random() % 2 == 0 ? box.begin : box.shape)[d] += random() % 2 ? 1 : -1;
    }
    std::shuffle(boxes.begin(), boxes.end(), random);

    std::vector<int> paint(125, 0);
    bool inside = true;
    for (const TensorBox& box : boxes) {
      int64_t count = 1;
      for (size_t d = 0; d < shape.size(); ++d) {
        inside &= box.begin[d] >= 0 && box.shape[d] > 0 &&
                  box.begin[d] + box.shape[d] <= shape[d];
        count *= box.shape[d];
      }
      for (int64_t i = 0; inside && i < count; ++i) {
        int64_t rest = i, at = 0;
        for (size_t d = 0; d < shape.size(); ++d) {
          at = at * shape[d] + box.begin[d] + rest % box.shape[d];
          rest /= box.shape[d];
        }
        ++paint[at];
      }
    }
    int64_t elements = 1;
    for (const int64_t extent : shape) elements *= extent;
    bool once = inside;
    for (int64_t i = 0; i < elements; ++i) once &= paint[i] == 1;
    EXPECT_EQ(TilingFault(shape, boxes) == "", once) << "seed " << seed;
    right += once;
  }
  EXPECT_GT(right, 1000);
  EXPECT_LT(right, 2500);
}

// As the ranks of a large job divide a tensor: quick in either dimension.
TEST(TilingTest, ThousandsOfPartsAlongOneDimension) {
  for (const size_t d : {0, 1}) {
    std::vector<TensorBox> boxes;
    for (int64_t i = 0; i < 20'000; ++i) {
      TensorBox box{{0, 0}, {20'000, 20'000}};
      box.begin[d] = i;
      box.shape[d] = 1;
      boxes.push_back(box);
    }
    EXPECT_EQ(TilingFault({20'000, 20'000}, boxes), "");
    boxes.back().begin[d] = 7;
    EXPECT_THAT(TilingFault({20'000, 20'000}, boxes), HasSubstr("overlap"));
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
