// Finds the communicator that a parameter is reduced over.

#ifndef LOCKSTEP_PLAN_GROUPS_H_
#define LOCKSTEP_PLAN_GROUPS_H_

#include <map>
#include <string>
#include <vector>

#include "lockstep/mesh.h"
#include "plan/ir.h"

namespace lockstep::plan {

// The communicators of a plan, created on demand. [0] is the world's, for the
// verdict only. Groups with the same ranks share one communicator, whatever
// axes name them: axes are used in the order of the mesh, and axes of size 1
// are ignored.
class Groups {
 public:
  // `mesh` must be valid and outlive this.
  explicit Groups(const Mesh& mesh);

  // Finds or creates the communicator of the ranks that differ from `rank` only
  // in `axes` (distinct axes of the mesh; empty: the world).
  int Find(int rank, const std::vector<std::string>& axes);

  const std::vector<CommunicatorSpec>& communicators() const {
    return communicators_;
  }

 private:
  int Make(int rank, const std::vector<std::string>& axes);

  const Mesh& mesh_;
  std::vector<CommunicatorSpec> communicators_;
  // By axes in mesh order: the communicator of each rank; -1: not created yet.
  std::map<std::vector<std::string>, std::vector<int>> index_of_;
};

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_GROUPS_H_
