// Runs the halo exchanges of a plan on cells that know where they are from, and
// compares the result with the field that one process pads (padded_field.h).
// Shares no code with the compiler and the verifier; of plan/ it uses the
// values of ir.h and the mesh.
//
//   forward   each rank packs its `sends`, the transfers of the exchange's
//             first group move the bytes, each rank copies `own`, `receives`
//             and `fills` into its padded block
//   adjoint   the transpose on random whole numbers: gradients of a padded
//             block are added to the block that its cells are copies of
//
// Rules, as in an exchange:
//   - Exchange h runs the transfers of group 2 h + 1, its adjoint those of
//     group 2 h + 2, in the halo lane of its communicator.
//   - The k-th send to a peer is received by the k-th receive from the sender.
//
// Faults:
//   - a cell that is not copied, copied twice, or has another content; boxes
//     outside their blocks; messages of other sizes than their transfers
//   - a message without its transfers on both sides, or with other tags; a
//     transfer in a halo lane without a message, or of an exchange in another
//     lane
//   - an exchange whose ranks, mesh and communicator do not belong together

#ifndef LOCKSTEP_TESTS_PLAN_HALO_RUN_HALOS_H_
#define LOCKSTEP_TESTS_PLAN_HALO_RUN_HALOS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "plan/ir.h"

namespace lockstep::plan::oracle {

// The first fault, if there is one. The same seed gives the same gradients.
std::optional<std::string> HaloFaultIn(const Plan& plan, uint64_t seed = 1);

}  // namespace lockstep::plan::oracle

#endif  // LOCKSTEP_TESTS_PLAN_HALO_RUN_HALOS_H_
