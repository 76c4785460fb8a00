#include "examples/digits/dataset.h"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_path.h"

namespace lockstep::digits {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Dataset Embedded() { return ParseDigits(EmbeddedCsv()).value(); }

std::vector<std::string> Fields(std::string pixel, std::string label) {
  std::vector<std::string> fields(kPixels, std::move(pixel));
  fields.push_back(std::move(label));
  return fields;
}

std::string Line(const std::vector<std::string>& fields) {
  return absl::StrJoin(fields, ",") + "\n";
}

TEST(EmbeddedDigitsTest, AreThe1797OfUci) {
  const Dataset dataset = Embedded();
  std::vector<int> of_class(kClasses);
  int darkest = 0;
  int64_t ink = 0;
  for (const Digit& digit : dataset) {
    ++of_class[digit.label];
    for (uint8_t pixel : digit.pixels) {
      darkest = std::max<int>(darkest, pixel);
      ink += pixel;
    }
  }
  EXPECT_EQ(dataset.size(), 1797u);
  EXPECT_THAT(of_class,
              ElementsAre(178, 182, 177, 183, 181, 182, 181, 179, 174, 180));
  EXPECT_EQ(darkest, kDarkest);
  EXPECT_EQ(ink, 561718);
}

TEST(ParseDigitsTest, ReadsPixelsRowByRowAndThenTheLabel) {
  std::vector<std::string> fields = Fields("0", "7");
  fields[0] = "16";
  fields[63] = "3";
  const Dataset dataset = ParseDigits(Line(fields)).value();
  ASSERT_EQ(dataset.size(), 1u);
  EXPECT_EQ(dataset[0].pixels[0], 16);
  EXPECT_EQ(dataset[0].pixels[63], 3);
  EXPECT_EQ(dataset[0].label, 7);
}

TEST(ParseDigitsTest, TakesALastLineWithoutItsEndAndWindowsLines) {
  const std::string line = absl::StrJoin(Fields("1", "2"), ",");
  EXPECT_EQ(ParseDigits(line + "\r\n" + line).value().size(), 2u);
}

TEST(ParseDigitsTest, NamesLineAndFieldOfWhatIsWrong) {
  const std::string good = Line(Fields("4", "5"));
  const struct {
    int field;  // from 1
    std::string text;
  } kCases[] = {{1, "17"},   {5, "-1"},  {64, "x"},     {9, ""},
                {30, "1.5"}, {65, "10"}, {65, "seven"}, {2, "99999999999"}};
  for (const auto& [field, text] : kCases) {
    std::vector<std::string> fields = Fields("4", "5");
    fields[field - 1] = text;
    const auto dataset = ParseDigits(good + good + Line(fields) + good);
    EXPECT_EQ(dataset.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(dataset.status().message()),
                AllOf(HasSubstr("line 3"),
                      HasSubstr(absl::StrCat("field ", field, ":")),
                      HasSubstr("\"" + text + "\"")));
  }
}

TEST(ParseDigitsTest, NamesTheLineWithTheWrongNumberOfFields) {
  const std::string good = Line(Fields("4", "5"));
  std::vector<std::string> fields = Fields("4", "5");
  fields.pop_back();
  EXPECT_THAT(std::string(ParseDigits(good + Line(fields)).status().message()),
              AllOf(HasSubstr("line 2"), HasSubstr("64"), HasSubstr("65")));
  EXPECT_THAT(std::string(ParseDigits(good + "\n" + good).status().message()),
              HasSubstr("line 2"));
}

TEST(ParseDigitsTest, RefusesAnEmptyText) {
  EXPECT_EQ(ParseDigits("").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ReadDigitsTest, ReadsWhatIsInTheFile) {
  const std::string path = TempPath("some_digits.csv");
  std::ofstream(path) << EmbeddedCsv();
  EXPECT_EQ(ReadDigits(path).value().size(), 1797u);
}

TEST(ReadDigitsTest, NamesTheFileInEveryMessage) {
  const std::string absent = TempPath("absent.csv");
  EXPECT_EQ(ReadDigits(absent).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadDigits(absent).status().message()),
              HasSubstr(absent));
  EXPECT_EQ(ReadDigits(::testing::TempDir()).status().code(),
            absl::StatusCode::kInvalidArgument);

  const std::string broken = TempPath("broken.csv");
  std::ofstream(broken) << "1,2,3\n";
  EXPECT_THAT(std::string(ReadDigits(broken).status().message()),
              AllOf(HasSubstr(broken), HasSubstr("line 1")));
}

TEST(SplitTest, UsesEveryRowOnceAndTestsEveryClass) {
  const Dataset dataset = Embedded();
  const Split split = SplitRows(1797).value();
  EXPECT_EQ(split.train.size(), 1437u);
  EXPECT_EQ(split.test.size(), 360u);

  std::vector<int> uses(1797);
  for (int row : split.train) ++uses[row];
  for (int row : split.test) ++uses[row];
  EXPECT_THAT(uses, Each(1));

  const std::vector<int> labels = Labels(dataset, split.test);
  for (int label = 0; label < kClasses; ++label) {
    EXPECT_THAT(labels, Contains(label));
  }
}

TEST(SplitTest, IsTheSameForEverAndEverywhere) {
  const Split split = SplitRows(1797).value();
  const std::vector<int> first(split.test.begin(), split.test.begin() + 5);
  EXPECT_THAT(first, ElementsAre(1146, 1206, 1385, 20, 995));
}

TEST(SplitTest, NeedsTwoRows) {
  EXPECT_EQ(SplitRows(1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SplitRows(2).value().train.size(), 1u);
}

TEST(ImagesTest, ScalesPixelsToMinusOneToOne) {
  Dataset dataset(3);
  dataset[2].pixels = {0, 8, 16, 4};
  const Tensor<float> images = Images<float>(dataset, {2, 0});
  EXPECT_EQ(images.batch(), 2);
  EXPECT_EQ(images.shape(), (Shape{8, 8, 1}));
  const std::vector<float> first(images.sample(0), images.sample(0) + 4);
  EXPECT_THAT(first, ElementsAre(-1, 0, 1, -0.5));
}

}  // namespace
}  // namespace lockstep::digits
