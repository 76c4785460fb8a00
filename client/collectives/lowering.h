// Lowers a collective over named axes to steps. ragged_all_to_all, whose sizes
// are known only at the call, has none here: ragged.h.

#ifndef LOCKSTEP_CLIENT_COLLECTIVES_LOWERING_H_
#define LOCKSTEP_CLIENT_COLLECTIVES_LOWERING_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/collectives/lowered.h"
#include "client/collectives/step_list.h"
#include "lockstep/axis_collective.h"

namespace lockstep::collectives {

// The steps of the member with `index` of `size`, for inputs of these types
// (of pbroadcast and scatter the root's types, on all members). Errors: as
// OutputTypes'.
absl::StatusOr<Lowered> Lower(const AxisCollective& op, int size, int index,
                              absl::Span<const TensorType> inputs);

// The two parts of Lower: lower_reductions.cc, lower_moves.cc.
Lowered LowerReduction(CallTypes call);
Lowered LowerMove(CallTypes call);

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_CLIENT_COLLECTIVES_LOWERING_H_
