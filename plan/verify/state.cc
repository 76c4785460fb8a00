#include "plan/verify/state.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "plan/state/state.h"
#include "protocol/state.h"

namespace lockstep::plan {
namespace {

absl::Status CheckStateTensor(const StateTensor& tensor, const Mesh& mesh) {
  absl::Status status = CheckStateName(tensor.name);
  if (!status.ok()) return status;
  if (!IsStateDType(tensor.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("state \"%s\": checkpoints cannot have dtype %d",
                        tensor.name, static_cast<int>(tensor.dtype)));
  }
  return Validate(tensor, mesh);
}

}  // namespace

void CheckState(const Plan& plan, Diagnostics& diagnostics) {
  absl::flat_hash_set<absl::string_view> names;
  for (const StateTensor& tensor : plan.state) {
    if (diagnostics.full()) return;
    const absl::Status valid = CheckStateTensor(tensor, plan.mesh);
    if (!valid.ok()) {
      diagnostics.Add(Rule::kState, {}, std::string(valid.message()));
    } else if (!names.insert(tensor.name).second) {
      diagnostics.Add(
          Rule::kState, {},
          absl::StrFormat("state \"%s\" is there twice", tensor.name));
    }
  }
}

}  // namespace lockstep::plan
