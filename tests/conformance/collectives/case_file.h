// Conformance cases of collectives over named axes, read from JSON. README.md
// in this folder describes the format.

#ifndef LOCKSTEP_TESTS_CONFORMANCE_COLLECTIVES_CASE_FILE_H_
#define LOCKSTEP_TESTS_CONFORMANCE_COLLECTIVES_CASE_FILE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/axis_collective.h"
#include "lockstep/mesh.h"
#include "tests/conformance/cases/case_list.h"
#include "tests/conformance/collectives/run_collective.h"

namespace lockstep::conformance {

struct CollectiveCase {
  std::string name;
  Mesh mesh;
  // The operation that is run: in a case of a transpose, the transpose.
  absl::StatusOr<AxisCollective> op;
  double tolerance = 0;              // relative to max(1, |wanted|)
  std::optional<std::string> error;  // what kind of error; no outputs
  RankTensors inputs, outputs;
};

struct CaseFile {
  std::string operation;
  std::vector<CollectiveCase> cases;
};

// InvalidArgument names the file, the case and what is wrong with it.
absl::StatusOr<CaseFile> ReadCases(const CaseList& list);
absl::StatusOr<CaseFile> ReadCaseFile(const std::string& path);

}  // namespace lockstep::conformance

#endif  // LOCKSTEP_TESTS_CONFORMANCE_COLLECTIVES_CASE_FILE_H_
