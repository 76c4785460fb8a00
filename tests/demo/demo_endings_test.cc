// How `./run demo` ends, and its summary of results.

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/tool.h"

namespace lockstep::e2e {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// Runs the demo as RunTool does; calls `on_address` once, with the address of
// its coordinator.
Outcome RunDemo(std::vector<std::string> flags,
                const std::function<void(const std::string&)>& on_address) {
  flags.insert(flags.begin(),
               absl::StrCat(launch::OwnFolder(), "/lockstep-demo"));
  Outcome outcome;
  launch::Supervisor supervisor(
      {.on_output = [&](const std::string&, absl::string_view line) {
        absl::StrAppend(&outcome.output, line, "\n");
        if (absl::ConsumePrefix(&line, "coordinator: ")) {
          on_address(std::string(line));
        }
      }});
  const absl::Status started =
      supervisor.Start("demo", {.argv = flags, .capture_output = true});
  EXPECT_TRUE(started.ok()) << started;
  outcome.code = supervisor.Run();
  return outcome;
}

// Runs the demo, and an operator's command once its job has trained some steps.
Outcome RunDemoAndEnd(const std::vector<std::string>& flags,
                      const std::vector<std::string>& command) {
  return RunDemo(flags, [&](const std::string& address) {
    const auto operate = [&](std::vector<std::string> words) {
      words.insert(words.begin(), {"lockstepctl", "--address", address});
      return RunTool(words);
    };
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    uint64_t step = 0;
    while (step < 3 && absl::Now() < deadline) {
      const auto job = nlohmann::json::parse(
          operate({"describe", "digits", "--json"}).output, nullptr,
          /*allow_exceptions=*/false);
      if (!job.is_object() || job["workers"].empty()) continue;
      step = job["workers"][0]["step"];
    }
    EXPECT_EQ(operate(command).code, 0);
  });
}

TEST(DemoEndingsTest, AShortRunIsNotJudgedByItsAccuracy) {
  const Outcome demo =
      RunTool({"lockstep-demo", "--workers", "3", "--steps", "20"});
  EXPECT_EQ(demo.code, 0) << demo.output;
  EXPECT_THAT(demo.output,
              AllOf(HasSubstr("after 20 steps, not judged: 95 % are promised"),
                    HasSubstr("largest weight difference: "),
                    EndsWith("demo: PASS\n")));
}

// It writes as many lines to stderr as to stdout, both into one pipe.
TEST(DemoEndingsTest, LinesComeInTheOrderInWhichTheyAreSaid) {
  const Outcome demo =
      RunTool({"lockstep-demo", "--workers", "2", "--steps", "10"});
  size_t at = 0;
  for (const char* line :
       {"training with a coordinator and 2 workers\n", "coordinator: ", "10/10",
        "training the same in one process\n", "10/10",
        "largest weight difference", "test accuracy", "demo: PASS\n"}) {
    at = demo.output.find(line, at);
    ASSERT_NE(at, std::string::npos) << line << " in:\n" << demo.output;
    at += 1;
  }
}

TEST(DemoEndingsTest, AnOperatorWhoEndsItIsNoFailure) {
  for (const std::string command : {"stop", "drain"}) {
    const Outcome demo =
        RunDemoAndEnd({"--workers", "2", "--hold"}, {command, "digits"});
    EXPECT_EQ(demo.code, 0) << demo.output;
    EXPECT_THAT(
        demo.output,
        AllOf(HasSubstr("ended by an operator after "),
              HasSubstr("largest weight difference between workers: 0 "),
              HasSubstr("not compared with one process"),
              Not(HasSubstr("FAIL")),
              EndsWith("demo: ENDED by an operator\n")));
  }
}

TEST(DemoEndingsTest, AnOperatorWhoEndsItAtOnceIsNoFailure) {
  const Outcome demo =
      RunDemoAndEnd({"--workers", "2", "--hold"}, {"stop", "digits", "--now"});
  EXPECT_EQ(demo.code, 0) << demo.output;
  EXPECT_THAT(demo.output, AllOf(HasSubstr("not compared"),
                                 EndsWith("demo: ENDED by an operator\n")));
}

// With --steps as well: the run has not reached the number of steps.
TEST(DemoEndingsTest, ARunThatAnOperatorEndsEarlyIsNotCompared) {
  const Outcome demo = RunDemoAndEnd({"--workers", "2", "--steps", "1000000"},
                                     {"stop", "digits"});
  EXPECT_EQ(demo.code, 0) << demo.output;
  EXPECT_THAT(demo.output, EndsWith("demo: ENDED by an operator\n"));
}

}  // namespace
}  // namespace lockstep::e2e
