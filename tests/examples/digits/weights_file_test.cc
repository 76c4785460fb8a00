#include "examples/digits/weights_file.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_path.h"

namespace lockstep::digits {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Weights = std::vector<NamedWeights>;

absl::Status StatusOfText(const std::string& text) {
  const std::string path = TempPath("weights.txt");
  std::ofstream(path) << text;
  return ReadWeights(path).status();
}

TEST(WeightsFileTest, GivesBackTheSameBits) {
  const std::vector<double> values = {0.1, -1.0 / 3, 5e-324,
                                      std::numeric_limits<double>::max(), -0.0};
  const std::string path = TempPath("bits.txt");
  ASSERT_TRUE(WriteWeights(path, {{"a", values}, {"b", {}}}).ok());
  const Weights read = ReadWeights(path).value();
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].name, "a");
  EXPECT_EQ(read[0].values, values);
  EXPECT_TRUE(std::signbit(read[0].values.back()));
  EXPECT_EQ(read[1].name, "b");
  EXPECT_THAT(read[1].values, ElementsAre());
}

TEST(WeightsFileTest, SnapshotTakesNamesAndValues) {
  Parameter<float> parameter("p", {2, 1});
  parameter.value()[1] = 0.5f;
  const Weights weights = Snapshot<float>({&parameter});
  ASSERT_EQ(weights.size(), 1u);
  EXPECT_EQ(weights[0].name, "p");
  EXPECT_THAT(weights[0].values, ElementsAre(0, 0.5));
}

TEST(WeightsFileTest, NamesTheLineThatIsWrong) {
  EXPECT_THAT(std::string(StatusOfText("a 2\n1\nx\n").message()),
              AllOf(HasSubstr("line 3"), HasSubstr("x")));
  EXPECT_THAT(std::string(StatusOfText("a 1\n1\nb\n").message()),
              HasSubstr("line 3"));
  EXPECT_THAT(std::string(StatusOfText("a 3\n1\n2\n").message()),
              AllOf(HasSubstr("line 3"), HasSubstr("a")));
}

TEST(WeightsFileTest, SaysWhichFileCannotBeReadOrWritten) {
  const std::string path = TempPath("no/such/folder");
  EXPECT_EQ(ReadWeights(path).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(WriteWeights(path, {}).message()), HasSubstr(path));
}

TEST(LargestDifferenceTest, IsOverAllParametersAndPlaces) {
  const Weights a = {{"a", {1, 2}}, {"b", {-3, 0}}};
  const Weights b = {{"a", {1, 2.25}}, {"b", {-3.5, 0}}};
  EXPECT_EQ(LargestDifference(a, b).value(), 0.5);
  EXPECT_EQ(LargestDifference(a, a).value(), 0);
}

TEST(LargestDifferenceTest, IsInfiniteWhereAWeightIsNoNumber) {
  const Weights a = {{"a", {1, std::nan("")}}};
  const Weights b = {{"a", {1, std::nan("")}}};
  EXPECT_EQ(LargestDifference(a, b).value(),
            std::numeric_limits<double>::infinity());
}

TEST(LargestDifferenceTest, RefusesOtherParameters) {
  const Weights a = {{"a", {1}}};
  for (const Weights& b :
       {Weights{{"b", {1}}}, Weights{{"a", {1, 2}}}, Weights{}}) {
    EXPECT_EQ(LargestDifference(a, b).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(LargestDifference(b, a).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace lockstep::digits
