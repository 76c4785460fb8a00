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

std::string ContentsOf(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string ReadSource(const std::string& file) {
  EXPECT_TRUE(std::filesystem::exists(SourcePath(file))) << SourcePath(file);
  return ContentsOf(SourcePath(file));
}

std::string ProgramPath(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

}  // namespace lockstep
