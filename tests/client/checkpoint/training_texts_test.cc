#include "client/checkpoint/training_texts.h"

#include <cstdint>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(TrainingTextsTest, TheStateComesBackToTheLastBit) {
  for (const double rate :
       {0.1, 1e-300, -0.0, 1.0 / 3, std::numeric_limits<double>::denorm_min(),
        std::numeric_limits<double>::max()}) {
    const TrainingState training{
        .step = 20,
        .epoch = 3,
        .learning_rate = rate,
        .metadata = {{"format", "pt"}, {"note", "a text"}, {"step", "20"}},
        .samples = {{.seed = std::numeric_limits<uint64_t>::max(),
                     .dataset_size = 1797,
                     .position = std::numeric_limits<int64_t>::max()}}};
    const auto back = TrainingOf(TextsOf(training));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, training) << rate;
  }
}

TEST(TrainingTextsTest, TheNumbersOfTheStateGoBeforeItsTexts) {
  const TrainingState training{
      .step = 20,
      .learning_rate = 0.5,
      .metadata = {{"lockstep.epoch", "9"}, {"step", "10"}, {"loss", "1"}}};
  EXPECT_THAT(TextsOf(training),
              ElementsAre(Pair("format", "pt"), Pair("lockstep.epoch", "0"),
                          Pair("lockstep.learning_rate", "0.5"),
                          Pair("loss", "1"), Pair("step", "20")));
}

TEST(TrainingTextsTest, TextsOfOtherProgramsStay) {
  const auto training = TrainingOf({{"step", "many"}, {"format", "np"}});
  ASSERT_TRUE(training.ok());
  EXPECT_EQ(training->step, 0);
  EXPECT_EQ(training->metadata.size(), 2u);
  EXPECT_EQ(TrainingOf({{"step", "-1"}})->step, 0);
}

TEST(TrainingTextsTest, TextsThatNobodyHasWrittenAreNamed) {
  for (const auto& [name, text] :
       std::map<std::string, std::string>{{"lockstep.epoch", "x"},
                                          {"lockstep.learning_rate", "inf"},
                                          {"lockstep.samples.seed", "-1"},
                                          {"lockstep.samples.position", "1"},
                                          {"lockstep.other", "1"}}) {
    const absl::Status refused = TrainingOf({{name, text}}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << name;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(name));
  }
}

}  // namespace
}  // namespace lockstep::checkpoint
