// Conformance cases of halo exchanges, read from JSON. README.md in this folder
// describes the format.

#ifndef LOCKSTEP_TESTS_CONFORMANCE_HALO_HALO_CASE_H_
#define LOCKSTEP_TESTS_CONFORMANCE_HALO_HALO_CASE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/mesh.h"
#include "tests/conformance/cases/case_list.h"
#include "tests/conformance/cases/case_tensor.h"
#include "tests/conformance/cases/groups.h"
#include "tests/conformance/halo/halo_ranks.h"

namespace lockstep::conformance {

// An exchange that must be refused.
struct HaloRefusal {
  std::string kind;                   // for people
  std::vector<int> ranks;             // whose own declarations are refused
  std::vector<std::string> mentions;  // what the compiler's error has
};

struct HaloCase {
  std::string name;
  Mesh mesh;
  HaloDeclarations declared;
  std::optional<HaloRefusal> refusal;  // then there are no tensors
  RankTensors blocks, padded, padded_gradients, block_gradients;
};

// InvalidArgument names the file, the case and what is wrong with it.
absl::StatusOr<std::vector<HaloCase>> ReadHaloCases(const CaseList& list);

// Runs the case on the ranks of this process: every call of HaloExchange, with
// tensors in memory of the transport and of the caller. Empty if it passed;
// else what is wrong: the call, the rank, the element, what was got and what
// was wanted. `checked`: ranks compare what they call.
std::string RunHaloCase(const HaloCase& test, Groups& groups,
                        bool checked = false);

}  // namespace lockstep::conformance

#endif  // LOCKSTEP_TESTS_CONFORMANCE_HALO_HALO_CASE_H_
