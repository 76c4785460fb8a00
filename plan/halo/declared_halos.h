// Halo exchanges that workers declare (Session::Halo), merged into fields.
//
//   mesh lat=2   rank 0 declares u: f32[6,8], dim 0 over lat
//                rank 1 declares u: f32[4,8], dim 0 over lat
//   Plan::halos  u over ranks 0 1: f32, bounds 0 6 10 and 0 8
//
// Exchanges over the same ranks share one communicator, "halo/lat@0".

#ifndef LOCKSTEP_PLAN_HALO_DECLARED_HALOS_H_
#define LOCKSTEP_PLAN_HALO_DECLARED_HALOS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lockstep/halo_spec.h"
#include "lockstep/mesh.h"
#include "plan/ir.h"

namespace lockstep::plan {

// The axes that cut tensors of the exchange, as a mesh of their own, in the
// order of `mesh`.
Mesh CuttingMesh(const Mesh& mesh, const HaloSpec& spec);

// The name of the communicator of exchanges over this mesh and these ranks.
std::string NameOfHaloGroup(const Mesh& cutting, const std::vector<int>& ranks);

// Adds plan->halos and their communicators. declared[rank]: what this rank
// declares; none, or one list for each rank of the valid `plan->mesh`.
// InvalidArgument, with the ranks and both values: a declaration that
// Normalized refuses or that a rank repeats; one that a member of the group
// lacks or makes differently; blocks of one coordinate with different sizes; a
// reflection as wide as the field; a padded block of too many bytes.
absl::Status AddDeclaredHalos(
    const std::vector<std::vector<HaloSpec>>& declared, Plan* plan);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_HALO_DECLARED_HALOS_H_
