// lockstep-conformance: runs conformance cases of collectives over named axes.
//
//   lockstep-conformance cases/*.json --transport shm
//
// All ranks of a case run in this process. Prints passed and failed cases of
// each operation. Exit codes: 1 if a case failed, 2 for invalid options and
// files.

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/command_line.h"
#include "client/transport/gloo/gloo.h"
#include "client/transport/shm/shm.h"
#include "tests/conformance/collectives/run_case.h"
#include "tests/support/inproc/inproc.h"

namespace lockstep::conformance {
namespace {

struct RunnerOptions {
  std::vector<std::string> files;
  std::string transport = "inproc";
  int every = 1;
  bool checked = false;
};

Groups::MakeTransport MakerOf(const std::string& transport,
                              transport::InprocHub* hub) {
  using Made = absl::StatusOr<std::unique_ptr<transport::Transport>>;
  if (transport == "shm") {
    return [](int) -> Made { return transport::MakeShmTransport(); };
  }
  if (transport == "gloo") {
    return [](int) -> Made { return transport::MakeGlooTransport({}); };
  }
  return [hub](int) -> Made { return transport::MakeInprocTransport(hub); };
}

// Returns the number of failed cases.
int RunFile(const CaseFile& file, const RunnerOptions& options,
            Groups& groups) {
  int passed = 0, failed = 0;
  for (size_t i = 0; i < file.cases.size();
       i += static_cast<size_t>(options.every)) {
    const std::string fault = RunCase(file.cases[i], groups, options.checked);
    if (fault.empty()) {
      ++passed;
    } else {
      ++failed;
      std::printf("FAILED %s %s: %s\n", file.operation.c_str(),
                  file.cases[i].name.c_str(), fault.c_str());
    }
  }
  std::printf("%-24s %4d passed %4d failed\n", file.operation.c_str(), passed,
              failed);
  return failed;
}

int Main(const RunnerOptions& options) {
  transport::InprocHub hub;
  Groups groups(MakerOf(options.transport, &hub));
  int failed = 0;
  for (const std::string& path : options.files) {
    const auto file = ReadCaseFile(path);
    if (!file.ok()) {
      std::fprintf(stderr, "lockstep-conformance: %s\n",
                   std::string(file.status().message()).c_str());
      return 2;
    }
    failed += RunFile(*file, options, groups);
  }
  std::printf("%s: %d failed\n", options.transport.c_str(), failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::conformance

int main(int argc, char** argv) {
  lockstep::conformance::RunnerOptions options;
  lockstep::CommandLine line(
      "Runs conformance cases of collectives over named axes.",
      "lockstep-conformance");
  line.Add("FILE", &options.files, "files of cases").Required();
  line.Add("--transport", &options.transport, "what connects the ranks")
      .OneOf({"inproc", "shm", "gloo"})
      .ShowDefault();
  line.Add("--every", &options.every, "runs one of so many cases")
      .Positive()
      .ShowDefault();
  line.AddFlag("--checked", &options.checked,
               "members compare their calls before each operation");
  if (const auto code = line.Parse(argc, argv)) return *code;
  return lockstep::conformance::Main(options);
}
