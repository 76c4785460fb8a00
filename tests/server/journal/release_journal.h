// The journal that each release left in tests/golden/journal/VERSION, as bytes:
// this version reads it, whether on a disk or in etcd.
//
//   frames.txt   NAME HEX: its frames, one a line
//   folder/      a folder of --journal: journal.db, mark
//   etcd.txt     KEY HEX: what is below the prefix in etcd, without the leader
//
// Those of the version in CMakeLists.txt are written with
// LOCKSTEP_UPDATE_GOLDEN=1, until it is released; those of earlier ones stay as
// they are.

#ifndef LOCKSTEP_TESTS_SERVER_JOURNAL_RELEASE_JOURNAL_H_
#define LOCKSTEP_TESTS_SERVER_JOURNAL_RELEASE_JOURNAL_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/paths.h"

namespace lockstep::journal {

// What is in it: a snapshot of two records, and two records behind it.
inline const std::vector<std::string> kReleaseReplaced = {"one", "two"};
inline const std::vector<std::string> kReleaseSnapshot = {"sum of one and two",
                                                          ""};
inline const std::vector<std::string> kReleaseRecords = {
    "three", std::string("\0\xff four", 7)};

using NamedBytes = std::vector<std::pair<std::string, std::string>>;

inline std::filesystem::path ReleaseFolder(const std::string& version) {
  return std::filesystem::path(SourcePath("tests/golden/journal")) / version;
}

inline std::vector<std::string> Releases() {
  std::vector<std::string> versions;
  for (const auto& folder :
       std::filesystem::directory_iterator(ReleaseFolder(""))) {
    versions.push_back(folder.path().filename());
  }
  return versions;
}

inline bool WritesGolden() {
  return std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr;
}

inline NamedBytes ReadNamedBytes(const std::filesystem::path& file) {
  NamedBytes read;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    read.emplace_back(parts.first, absl::HexStringToBytes(parts.second));
  }
  return read;
}

inline void WriteNamedBytes(const std::filesystem::path& file,
                            const NamedBytes& all) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream lines(file);
  for (const auto& [name, bytes] : all) {
    lines << name << " " << absl::BytesToHexString(bytes) << "\n";
  }
}

}  // namespace lockstep::journal

#endif  // LOCKSTEP_TESTS_SERVER_JOURNAL_RELEASE_JOURNAL_H_
