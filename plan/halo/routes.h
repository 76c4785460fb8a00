// Computes what each rank of a halo exchange copies from which other rank.
//
// The padded block of a rank is divided, in each dimension, into segments whose
// cells come from one block in one direction, or from none:
//
//   bounds 0 2 4 10, block 1, low 3, high 2, reflect
//   padded cells  -1 | 0  1 | 2  3 | 4  5
//   source         1 | 0  1 | 2  3 | 4  5
//   from block     0 | 0    | 1    | 2
//
// The products of the segments of all dimensions are the boxes.

#ifndef LOCKSTEP_PLAN_HALO_ROUTES_H_
#define LOCKSTEP_PLAN_HALO_ROUTES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "plan/halo/halo.h"

namespace lockstep::plan {

// The routes of all members of halos[index], in their order. InvalidArgument: a
// width that needs more than kHaloBoxesMax boxes on a rank.
absl::StatusOr<std::vector<HaloRoutes>> RoutesOf(const Halo& halo, int index);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_HALO_ROUTES_H_
