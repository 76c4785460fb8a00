// Runs a program to its end and keeps its output.

#ifndef LOCKSTEP_TESTS_E2E_TOOL_H_
#define LOCKSTEP_TESTS_E2E_TOOL_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tools/launch/local_daemon.h"
#include "tools/launch/supervisor.h"

namespace lockstep::e2e {

struct Outcome {
  int code = -1;
  std::string output;  // stdout and stderr
};

// argv[0] is a program in the test's folder.
inline Outcome RunTool(std::vector<std::string> argv) {
  argv[0] = absl::StrCat(launch::OwnFolder(), "/", argv[0]);
  Outcome outcome;
  launch::Supervisor supervisor(
      {.on_output = [&](const std::string&, absl::string_view line) {
        absl::StrAppend(&outcome.output, line, "\n");
      }});
  const absl::Status started =
      supervisor.Start("tool", {.argv = argv,
                                .environment = {{"LOCKSTEP_ADDRESS", ""}},
                                .capture_output = true});
  EXPECT_TRUE(started.ok()) << started;
  outcome.code = supervisor.Run();
  return outcome;
}

}  // namespace lockstep::e2e

#endif  // LOCKSTEP_TESTS_E2E_TOOL_H_
