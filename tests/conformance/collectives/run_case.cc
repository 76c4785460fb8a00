#include "tests/conformance/collectives/run_case.h"

#include "absl/strings/str_cat.h"

namespace lockstep::conformance {
namespace {

std::string CompareAll(const RankTensors& got, const CollectiveCase& test) {
  for (size_t r = 0; r < got.size(); ++r) {
    const std::vector<CaseTensor>& wanted = test.outputs[r];
    if (got[r].size() != wanted.size()) {
      return absl::StrCat("rank ", r, " has ", got[r].size(), " outputs, not ",
                          wanted.size());
    }
    for (size_t t = 0; t < wanted.size(); ++t) {
      const std::string fault =
          CompareTensors(got[r][t], wanted[t], test.tolerance);
      if (!fault.empty()) {
        return absl::StrCat("rank ", r, ", output ", t, ": ", fault);
      }
    }
  }
  return "";
}

}  // namespace

std::string RunCase(const CollectiveCase& test, Groups& groups, bool checked) {
  auto got = test.op.ok() ? RunCollective(test.mesh, *test.op, test.inputs,
                                          groups, checked)
                          : absl::StatusOr<RankTensors>(test.op.status());
  if (test.error.has_value()) {
    // Ranks that expect another number of rows than they get notice it late.
    const bool late =
        *test.error == "bad_ragged" && absl::IsDataLoss(got.status());
    if (absl::IsInvalidArgument(got.status()) || late) return "";
    return absl::StrCat("should fail (", *test.error,
                        "), but: ", got.status().ToString());
  }
  if (!got.ok()) return got.status().ToString();
  return CompareAll(*got, test);
}

}  // namespace lockstep::conformance
