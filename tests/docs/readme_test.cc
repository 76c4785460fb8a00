// The README shows exactly the program that is compiled.

#include <string>

#include "gtest/gtest.h"
#include "tests/support/paths.h"

namespace lockstep {
namespace {

TEST(ReadmeTest, ShowsTheMinimalProgramToTheLetter) {
  const std::string readme = ReadSource("README.md");
  const std::string program = ReadSource("examples/minimal/minimal.cc");
  ASSERT_FALSE(program.empty());
  EXPECT_NE(readme.find("```cpp\n" + program + "```\n"), std::string::npos)
      << "README.md and examples/minimal/minimal.cc differ";
}

// A step with an infinite or NaN gradient would destroy the weights.
TEST(ReadmeTest, UpdatesNothingWithGradientsThatAreNotFinite) {
  const std::string program = ReadSource("examples/minimal/minimal.cc");
  const size_t update = program.find("w -= ");
  ASSERT_NE(update, std::string::npos);
  EXPECT_NE(program.rfind("if (verdict->finite) ", update), std::string::npos);
}

}  // namespace
}  // namespace lockstep
