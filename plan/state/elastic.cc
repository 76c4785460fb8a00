#include "plan/state/elastic.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"

namespace lockstep::plan {
namespace {

absl::Status Refuse(const StateTensor& tensor, const std::string& why,
                    const JobSpec& spec) {
  return absl::FailedPreconditionError(absl::StrFormat(
      "the number of replicas over %s has changed, and tensor \"%s\" %s",
      spec.elastic.axis, tensor.name, why));
}

bool IsCutOver(const StateTensor& tensor, const std::string& axis) {
  return std::any_of(
      tensor.dims.begin(), tensor.dims.end(), [&](const StateDim& dim) {
        return std::find(dim.axes.begin(), dim.axes.end(), axis) !=
               dim.axes.end();
      });
}

}  // namespace

absl::Status CheckReplicasHoldAll(const std::vector<StateTensor>& tensors,
                                  const JobSpec& spec) {
  const std::string& axis = spec.elastic.axis;
  for (const StateTensor& tensor : tensors) {
    if (IsCutOver(tensor, axis)) {
      return Refuse(tensor, "is cut over it", spec);
    }
    if (!tensor.slices.empty() || spec.sync == SyncMode::kReduceScatter) {
      return Refuse(tensor, "is held in slices, which have changed, too", spec);
    }
    for (const int rank : tensor.ranks) {
      for (const int replica : spec.mesh.GroupOf(rank, {axis})) {
        if (std::binary_search(tensor.ranks.begin(), tensor.ranks.end(),
                               replica)) {
          continue;
        }
        return Refuse(tensor,
                      absl::StrFormat("is held by rank %d, but not by rank %d",
                                      rank, replica),
                      spec);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace lockstep::plan
