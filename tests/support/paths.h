// Where tests find files of the repository and the programs that they run.
//
// No other file of the tests is compiled with the path of the source or build
// folder. So a compiler cache serves clones in other folders, and no warning
// depends on how long the path is.

#ifndef LOCKSTEP_TESTS_SUPPORT_PATHS_H_
#define LOCKSTEP_TESTS_SUPPORT_PATHS_H_

#include <string>

namespace lockstep {

// The path of `file` of the repository, such as "docs/spec.md".
std::string SourcePath(const std::string& file);

// The contents of any file; empty if it cannot be read.
std::string ContentsOf(const std::string& path);

// The contents of SourcePath(file). Fails the test if it cannot be read.
std::string ReadSource(const std::string& file);

// The path of a program in the folder of this test.
std::string ProgramPath(const std::string& name);

}  // namespace lockstep

#endif  // LOCKSTEP_TESTS_SUPPORT_PATHS_H_
