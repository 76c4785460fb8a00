// Which communicator a parameter is reduced over.

#ifndef LOCKSTEP_PLAN_GROUPS_H_
#define LOCKSTEP_PLAN_GROUPS_H_

#include <map>
#include <string>
#include <vector>

#include "lockstep/mesh.h"
#include "plan/ir.h"

namespace lockstep::plan {

// The communicators of a plan, made as they are asked for. [0] is the whole
// world's and the verdict's alone.
// Groups of the same ranks are one communicator, whatever axes they are named
// by: axes are taken in the order of the mesh, and axes of size 1 do not count.
class Groups {
 public:
  // `mesh` must be valid and outlive this.
  explicit Groups(const Mesh& mesh);

  // The communicator of the ranks that differ from `rank` only in `axes`
  // (distinct axes of the mesh; none: the world).
  int Find(int rank, const std::vector<std::string>& axes);

  const std::vector<CommunicatorSpec>& communicators() const {
    return communicators_;
  }

 private:
  int Make(int rank, const std::vector<std::string>& axes);

  const Mesh& mesh_;
  std::vector<CommunicatorSpec> communicators_;
  // Per axes in mesh order: the communicator of each rank, -1 if not yet made.
  std::map<std::vector<std::string>, std::vector<int>> index_of_;
};

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_GROUPS_H_
