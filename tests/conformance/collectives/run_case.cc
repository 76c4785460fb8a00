#include "tests/conformance/collectives/run_case.h"

#include "absl/strings/str_cat.h"
#include "client/collectives/shapes.h"
#include "tests/conformance/collectives/element_text.h"

namespace lockstep::conformance {
namespace {

std::string CompareTensor(const CaseTensor& got, const CaseTensor& wanted,
                          double tolerance) {
  const TensorType& type = got.type;
  if (!(type == wanted.type)) {
    return absl::StrCat("is ", collectives::Text(type), ", not ",
                        collectives::Text(wanted.type));
  }
  const size_t size = SizeOf(type.dtype);
  for (size_t i = 0; i * size < got.bytes.size(); ++i) {
    const std::byte* const a = &got.bytes[i * size];
    const std::byte* const b = &wanted.bytes[i * size];
    if (!IsNear(type.dtype, a, b, tolerance)) {
      return absl::StrCat("element ", i, " of ", collectives::Text(type),
                          " is ", ElementText(type.dtype, a), ", not ",
                          ElementText(type.dtype, b));
    }
  }
  return "";
}

std::string CompareAll(const RankTensors& got, const CollectiveCase& test) {
  for (size_t r = 0; r < got.size(); ++r) {
    const std::vector<CaseTensor>& wanted = test.outputs[r];
    if (got[r].size() != wanted.size()) {
      return absl::StrCat("rank ", r, " has ", got[r].size(), " outputs, not ",
                          wanted.size());
    }
    for (size_t t = 0; t < wanted.size(); ++t) {
      const std::string fault =
          CompareTensor(got[r][t], wanted[t], test.tolerance);
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
