#include "tests/support/paths.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "gtest/gtest.h"

namespace lockstep {

std::string SourcePath(const std::string& file) {
  const std::filesystem::path root = LOCKSTEP_SOURCE_DIR;
  return root / file;
}

std::string ReadSource(const std::string& file) {
  std::ifstream in(SourcePath(file), std::ios::binary);
  EXPECT_TRUE(in) << SourcePath(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string ProgramPath(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

}  // namespace lockstep
