// The README shows exactly the program that is compiled.

#include <fstream>
#include <iterator>
#include <string>

#include "gtest/gtest.h"

namespace {

std::string Read(const std::string& path) {
  std::ifstream in(std::string(LOCKSTEP_SOURCE_DIR) + "/" + path);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(ReadmeTest, ShowsTheMinimalProgramToTheLetter) {
  const std::string readme = Read("README.md");
  const std::string program = Read("examples/minimal/minimal.cc");
  ASSERT_FALSE(program.empty());
  EXPECT_NE(readme.find("```cpp\n" + program + "```\n"), std::string::npos)
      << "README.md and examples/minimal/minimal.cc differ";
}

// A step with an infinite or NaN gradient would destroy the weights.
TEST(ReadmeTest, UpdatesNothingWithGradientsThatAreNotFinite) {
  const std::string program = Read("examples/minimal/minimal.cc");
  const size_t update = program.find("w -= ");
  ASSERT_NE(update, std::string::npos);
  EXPECT_NE(program.rfind("if (verdict->finite) ", update), std::string::npos);
}

}  // namespace
