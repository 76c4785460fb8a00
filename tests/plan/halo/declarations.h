// Declarations of halo exchanges for the tests of this folder.

#ifndef LOCKSTEP_TESTS_PLAN_HALO_DECLARATIONS_H_
#define LOCKSTEP_TESTS_PLAN_HALO_DECLARATIONS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/halo_spec.h"
#include "plan/compile.h"

namespace lockstep::plan {

// f32, cut over `axis` in its first dimension, with 1 cell on each side.
inline HaloTensor RowsOver(const std::string& axis, std::vector<int64_t> shape,
                           HaloEdge edge = HaloEdge::kPeriodic) {
  return {DType::kF32, std::move(shape), {{0, axis, 1, 1, edge}}};
}

inline PlanInput DeclaredInput(const Mesh& mesh,
                               std::vector<std::vector<HaloSpec>> halos) {
  PlanInput input{.mesh = mesh, .halos = std::move(halos)};
  input.registrations.resize(mesh.WorldSize());
  return input;
}

// Every rank declares the same.
inline PlanInput DeclaredByAll(const Mesh& mesh, const HaloSpec& spec) {
  return DeclaredInput(
      mesh, std::vector<std::vector<HaloSpec>>(mesh.WorldSize(), {spec}));
}

}  // namespace lockstep::plan

#endif  // LOCKSTEP_TESTS_PLAN_HALO_DECLARATIONS_H_
