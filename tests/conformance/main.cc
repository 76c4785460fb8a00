// lockstep-conformance: runs conformance cases of collectives over named axes
// (collectives/README.md) and of halo exchanges (halo/README.md).
//
//   lockstep-conformance halo/cases/*.json --transport shm
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
#include "tests/conformance/halo/halo_case.h"
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

// Prints the faults of cases, and counts them.
class CaseCounts {
 public:
  explicit CaseCounts(const std::string& operation) : operation_(operation) {}

  void Add(const std::string& name, const std::string& fault) {
    ++(fault.empty() ? passed_ : failed_);
    if (fault.empty()) return;
    std::printf("FAILED %s %s: %s\n", operation_.c_str(), name.c_str(),
                fault.c_str());
  }
  // Returns the number of failed cases.
  int Print() const {
    std::printf("%-24s %4d passed %4d failed\n", operation_.c_str(), passed_,
                failed_);
    return failed_;
  }

 private:
  const std::string operation_;
  int passed_ = 0;
  int failed_ = 0;
};

// Returns the number of failed cases; InvalidArgument for an invalid file.
absl::StatusOr<int> RunFile(const std::string& path,
                            const RunnerOptions& options, Groups& groups) {
  const auto list = ReadCaseList(path);
  if (!list.ok()) return list.status();
  CaseCounts counts(list->operation);
  const auto every = static_cast<size_t>(options.every);
  if (list->operation == "halo") {
    const auto cases = ReadHaloCases(*list);
    if (!cases.ok()) return cases.status();
    for (size_t i = 0; i < cases->size(); i += every) {
      const HaloCase& test = (*cases)[i];
      counts.Add(test.name, RunHaloCase(test, groups, options.checked));
    }
    return counts.Print();
  }
  const auto file = ReadCases(*list);
  if (!file.ok()) return file.status();
  for (size_t i = 0; i < file->cases.size(); i += every) {
    const CollectiveCase& test = file->cases[i];
    counts.Add(test.name, RunCase(test, groups, options.checked));
  }
  return counts.Print();
}

int Main(const RunnerOptions& options) {
  transport::InprocHub hub;
  Groups groups(MakerOf(options.transport, &hub));
  int failed = 0;
  for (const std::string& path : options.files) {
    const auto failed_of_file = RunFile(path, options, groups);
    if (!failed_of_file.ok()) {
      std::fprintf(stderr, "lockstep-conformance: %s\n",
                   std::string(failed_of_file.status().message()).c_str());
      return 2;
    }
    failed += *failed_of_file;
  }
  std::printf("%s: %d failed\n", options.transport.c_str(), failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::conformance

int main(int argc, char** argv) {
  lockstep::conformance::RunnerOptions options;
  lockstep::CommandLine line(
      "Runs conformance cases of collectives over named axes and of halo "
      "exchanges.",
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
