// Merges the registrations of all ranks into one list, and checks that they
// agree.
//
//   rank 0: w b     rank 1: w b     rank 2: w c      (c is reduced over rank 2
//                        ▼                            only)
//   w over {0,1,2}    b over {0,1}    c over {2}

#ifndef LOCKSTEP_PLAN_MERGE_H_
#define LOCKSTEP_PLAN_MERGE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/mesh.h"
#include "plan/ir.h"

namespace lockstep::plan {

// One entry for each name and group, in the order of first registration, lower
// ranks first.
struct Merged {
  std::vector<Parameter> parameters;
  std::vector<int> communicator_of;  // of each parameter
  std::vector<CommunicatorSpec> communicators;
};

// Every rank of a parameter's group must have registered the same parameter.
// registrations[rank]: one for each rank of the valid `mesh`.
//
// InvalidArgument: a malformed parameter, a name that a rank registers twice
// (names the ranks), or mismatches between ranks as in compile.h.
absl::StatusOr<Merged> Merge(
    const Mesh& mesh, const std::vector<std::vector<Parameter>>& registrations);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_MERGE_H_
