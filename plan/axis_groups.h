// The groups of ranks in which a collective over named axes runs.
//
//   mesh data=2,model=2, axes {"data"}:  ranks 0 2 and 1 3
//   index_groups {{1},{0}} of it:        each rank alone

#ifndef LOCKSTEP_PLAN_AXIS_GROUPS_H_
#define LOCKSTEP_PLAN_AXIS_GROUPS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/mesh.h"

namespace lockstep::plan {

struct AxisGroups {
  // World ranks: those of a group in the order of their indices; groups by
  // their first listed member. Each rank of the mesh is in one.
  std::vector<std::vector<int>> groups;
  bool even = true;  // all have the same size
};

// The groups over `axes`, divided by `index_groups` (none: not divided).
// InvalidArgument: an axis that the mesh does not have or that is there twice;
// index groups that do not contain each index of the axes exactly once.
absl::StatusOr<AxisGroups> GroupsOver(
    const Mesh& mesh, const std::vector<std::string>& axes,
    const std::vector<std::vector<int>>& index_groups);

// The position of the group that has `rank`.
size_t GroupWith(const AxisGroups& groups, int rank);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_AXIS_GROUPS_H_
