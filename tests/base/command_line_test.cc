#include "base/command_line.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::optional<int> Parse(CommandLine& line, std::vector<std::string> words) {
  words.insert(words.begin(), "program");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return line.Parse(static_cast<int>(argv.size()), argv.data());
}

TEST(CommandLineTest, ReadsEachType) {
  std::string text = "before";
  int number = 0;
  int64_t steps = 0;
  uint64_t seed = 0;
  double seconds = 0;
  bool flag = false;
  std::vector<std::string> list;
  std::string read;
  CommandLine line("A program.", "program");
  line.Add("--text", &text, "");
  line.Add("-n,--number", &number, "");
  line.Add("--steps", &steps, "");
  line.Add("--seed", &seed, "");
  line.Add("--seconds", &seconds, "");
  line.AddFlag("--flag", &flag, "");
  line.Add("--list", &list, "").SeparatedBy(',');
  line.Add(
      "--read", [&](const std::string& word) { return read = word, ""; }, "");
  EXPECT_EQ(Parse(line, {"-n", "-3", "--steps=1099511627776", "--seed",
                         "18446744073709551615", "--seconds", "0.5", "--flag",
                         "--list", "a,b", "--read", "x"}),
            std::nullopt);
  EXPECT_EQ(text, "before");
  EXPECT_EQ(number, -3);
  EXPECT_EQ(steps, int64_t{1} << 40);
  EXPECT_EQ(seed, ~uint64_t{0});
  EXPECT_EQ(seconds, 0.5);
  EXPECT_TRUE(flag);
  EXPECT_THAT(list, ElementsAre("a", "b"));
  EXPECT_EQ(read, "x");
}

// Parses `words` with an option that `narrow` restricts.
template <typename T, typename Narrow>
std::optional<int> ParseOption(Narrow narrow, std::vector<std::string> words) {
  T value{};
  CommandLine line("A program.", "program");
  narrow(line.Add("--value", &value, ""));
  return Parse(line, std::move(words));
}

TEST(CommandLineTest, RefusesValuesOutsideTheirDomainWith2) {
  using Option = CommandLineOption;
  const auto between = [](Option option) { option.Between(1, 4); };
  EXPECT_EQ(ParseOption<int>(between, {"--value", "4"}), std::nullopt);
  EXPECT_EQ(ParseOption<int>(between, {"--value", "5"}), 2);
  EXPECT_EQ(ParseOption<int>(between, {"--value", "four"}), 2);
  const auto positive = [](Option option) { option.Positive(); };
  EXPECT_EQ(ParseOption<int64_t>(positive, {"--value", "1"}), std::nullopt);
  EXPECT_EQ(ParseOption<int64_t>(positive, {"--value", "0"}), 2);
  const auto not_negative = [](Option option) { option.NotNegative(); };
  EXPECT_EQ(ParseOption<double>(not_negative, {"--value", "0"}), std::nullopt);
  EXPECT_EQ(ParseOption<double>(not_negative, {"--value", "-1"}), 2);
  const auto one_of = [](Option option) { option.OneOf({"f64", "f32"}); };
  EXPECT_EQ(ParseOption<std::string>(one_of, {"--value", "f32"}), std::nullopt);
  EXPECT_EQ(ParseOption<std::string>(one_of, {"--value", "f16"}), 2);
  const auto file = [](Option option) { option.ExistingFile(); };
  EXPECT_EQ(ParseOption<std::string>(file, {"--value", "/proc/self/status"}),
            std::nullopt);
  EXPECT_EQ(ParseOption<std::string>(file, {"--value", "/proc/no/file"}), 2);
  const auto checked = [](Option option) {
    option.CheckedBy(
        [](const std::string& text) { return text == "7" ? "unlucky" : ""; },
        "NUMBER");
  };
  EXPECT_EQ(ParseOption<double>(checked, {"--value", "6"}), std::nullopt);
  EXPECT_EQ(ParseOption<double>(checked, {"--value", "7"}), 2);
  const auto required = [](Option option) { option.Required(); };
  EXPECT_EQ(ParseOption<int>(required, {}), 2);
  EXPECT_EQ(ParseOption<int>(required, {"--unknown"}), 2);
}

TEST(CommandLineTest, SaysWhatAReaderFindsWrong) {
  CommandLine line("A program.", "program");
  line.Add(
      "--size",
      [](const std::string& word) { return "'" + word + "' is no size"; }, "");
  testing::internal::CaptureStderr();
  EXPECT_EQ(Parse(line, {"--size", "big"}), 2);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("'big' is no size"));
}

TEST(CommandLineTest, HelpShowsDefaultsAndEndsTheProgramWith0) {
  int steps = 400;
  size_t bytes = 64 << 20;
  CommandLine line("A program.", "program");
  line.Add("--steps", &steps, "how many").ShowDefault();
  line.Add(
          "--size", [&](const std::string&) { return bytes = 1, ""; },
          "how large")
      .ShowDefault("64M");
  testing::internal::CaptureStdout();
  EXPECT_EQ(Parse(line, {"--help"}), 0);
  const std::string help = testing::internal::GetCapturedStdout();
  EXPECT_THAT(help, HasSubstr("400"));
  EXPECT_THAT(help, HasSubstr("64M"));
}

TEST(CommandLineTest, KnowsWhatOptionsNeedAndExclude) {
  const auto parse = [](std::vector<std::string> words) {
    std::string dtype, transport, device;
    bool feedback = false;
    CommandLine line("A program.", "program");
    const CommandLineOption wire = line.Add("--wire-dtype", &dtype, "");
    line.AddFlag("--error-feedback", &feedback, "").Needs(wire);
    line.Add("--device", &device, "")
        .Excludes(line.Add("--transport", &transport, ""));
    return Parse(line, std::move(words));
  };
  EXPECT_EQ(parse({"--wire-dtype", "f16", "--error-feedback"}), std::nullopt);
  EXPECT_EQ(parse({"--error-feedback"}), 2);
  EXPECT_EQ(parse({"--device", "cuda"}), std::nullopt);
  EXPECT_EQ(parse({"--device", "cuda", "--transport", "shm"}), 2);
}

TEST(CommandLineTest, CommandsShareTheOptionsOfTheProgram) {
  std::string address, job;
  std::vector<std::string> rest;
  bool called = false;
  CommandLine line("A program.", "program");
  line.RequireCommand();
  line.TakeOptionsBehindCommands();
  line.Add("--address", &address, "");
  const ProgramCommand stop = line.AddCommand("stop", "End it");
  stop.Add("JOB", &job, "");
  stop.WhenGiven([&] { called = true; });
  const ProgramCommand run = line.AddCommand("run", "Start it");
  run.Add("PROGRAM", &rest, "").TakesTheRest();
  EXPECT_EQ(Parse(line, {"stop", "digits", "--address", "here"}), std::nullopt);
  EXPECT_TRUE(stop.given());
  EXPECT_TRUE(called);
  EXPECT_FALSE(run.given());
  EXPECT_EQ(job, "digits");
  EXPECT_EQ(address, "here");
  EXPECT_EQ(Parse(line, {"run", "--", "worker", "--fast"}), std::nullopt);
  EXPECT_TRUE(run.given());
  EXPECT_FALSE(stop.given());
  EXPECT_THAT(rest, ElementsAre("worker", "--fast"));
  EXPECT_EQ(Parse(line, {}), 2);
}

TEST(CommandLineTest, TakesAVariableThatIsNotOnTheCommandLine) {
  std::string address;
  CommandLine line("A program.", "program");
  line.Add("--address", &address, "").FromVariable("COMMAND_LINE_TEST_ADDRESS");
  setenv("COMMAND_LINE_TEST_ADDRESS", "there", 1);
  EXPECT_EQ(Parse(line, {}), std::nullopt);
  EXPECT_EQ(address, "there");
  EXPECT_EQ(Parse(line, {"--address", "here"}), std::nullopt);
  EXPECT_EQ(address, "here");
  unsetenv("COMMAND_LINE_TEST_ADDRESS");
}

TEST(CommandLineTest, RefusesOptionsThatAreRightOneByOne) {
  CommandLine line("A program.", "program");
  EXPECT_EQ(Parse(line, {}), std::nullopt);
  testing::internal::CaptureStderr();
  EXPECT_EQ(line.Refuse("-e is smaller than -b"), 2);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("-e is smaller than -b"));
}

}  // namespace
}  // namespace lockstep
