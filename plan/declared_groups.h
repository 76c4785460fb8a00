// Communicators for the groups that workers declare (Session::Group).
//
//   mesh data=2,model=2     ranks 0-3 declare {"data"}
//   communicators           group/data@0 {0,2}, group/data@1 {1,3}
//
// Each declaration has communicators of its own, also where another one, or a
// parameter, has the same ranks: its operations are ordered with no others.

#ifndef LOCKSTEP_PLAN_DECLARED_GROUPS_H_
#define LOCKSTEP_PLAN_DECLARED_GROUPS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/mesh.h"
#include "plan/ir.h"
#include "protocol/axis_group.h"

namespace lockstep::plan {

// The name of the communicator of a declared group with these members.
std::string NameOfDeclared(const protocol::AxisGroupDeclaration& group,
                           const std::vector<int>& members);

// Adds a communicator for each group that its members declare. declared[rank]:
// what this rank declares; none, or one list for each rank of the valid `mesh`.
// InvalidArgument, with the ranks: a declaration that GroupsOver refuses, or
// that only some members of a group have.
absl::Status AddDeclaredGroups(
    const Mesh& mesh,
    const std::vector<std::vector<protocol::AxisGroupDeclaration>>& declared,
    std::vector<CommunicatorSpec>* communicators);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_DECLARED_GROUPS_H_
