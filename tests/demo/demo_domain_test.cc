// `./run demo` with images that are cut over rows.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/tool.h"

namespace lockstep::e2e {
namespace {

using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;

Outcome RunDemoWith(const std::vector<std::string>& flags) {
  std::vector<std::string> words = {"lockstep-demo", "--steps", "12"};
  words.insert(words.end(), flags.begin(), flags.end());
  return RunTool(words);
}

TEST(DemoDomainTest, PrintsTheBytesOfEachKindOfLane) {
  const Outcome outcome = RunDemoWith({"--mesh", "data=1,pipe=2,domain=2"});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output,
              ContainsRegex("bytes moved: gradient [1-9][0-9]*, pipeline "
                            "[1-9][0-9]*, halo [1-9][0-9]*\n"));
  EXPECT_THAT(outcome.output, EndsWith("demo: PASS\n"));
}

TEST(DemoDomainTest, WithoutHalosItFails) {
  const Outcome outcome =
      RunDemoWith({"--mesh", "data=1,pipe=2,domain=2", "--no-halo"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, HasSubstr(", halo 0\n"));
  EXPECT_THAT(outcome.output, EndsWith("demo: FAIL\n"));
}

TEST(DemoDomainTest, RefusesWhatCannotBeCut) {
  const struct {
    std::vector<std::string> flags;
    std::string why;
  } cases[] = {
      {{"--mesh", "data=1,pipe=2,domain=4"}, "can be cut among 2 ranks"},
      {{"--mesh", "data=2,domain=2"}, "data=N,pipe=P,domain=D"},
      {{"--no-halo"}, "--no-halo wants a mesh with domain=2"},
      {{"--mesh", "data=1,pipe=1,domain=2", "--device", "cuda"},
       "wants --device cpu"},
      {{"--mesh", "data=1,pipe=1,domain=2", "--sync", "negotiated"},
       "wants a mesh of data only"},
  };
  for (const auto& [flags, why] : cases) {
    const Outcome outcome = RunDemoWith(flags);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.output, HasSubstr(why));
  }
}

}  // namespace
}  // namespace lockstep::e2e
