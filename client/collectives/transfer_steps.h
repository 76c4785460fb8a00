// Runs the steps of a lowered collective that are calls of a communicator.

#ifndef LOCKSTEP_CLIENT_COLLECTIVES_TRANSFER_STEPS_H_
#define LOCKSTEP_CLIENT_COLLECTIVES_TRANSFER_STEPS_H_

#include "absl/status/status.h"
#include "client/collectives/local_steps.h"
#include "client/collectives/lowered.h"
#include "lockstep/communicator.h"
#include "lockstep/stream.h"

namespace lockstep::collectives {

// Enqueues `step`, which is no local step, on `stream`. Errors: the
// communicator's.
absl::Status EnqueueTransfer(const Step& step, const CallMemory& memory,
                             Communicator& communicator, Stream& stream);

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_CLIENT_COLLECTIVES_TRANSFER_STEPS_H_
