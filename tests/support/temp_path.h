// Names of temporary files.
#pragma once

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace lockstep {

// A path of this process: presets run the same test at once.
inline std::string TempPath(const std::string& name) {
  return absl::StrCat(testing::TempDir(), "lockstep-", getpid(), "-", name);
}

}  // namespace lockstep
