// ragged_all_to_all and its transpose: rows of different numbers between all
// members, whose sizes and offsets are known only at the call.
//
//   slice k of K goes to member k / (K / n):
//   operand  [ io[k], ss[k] rows ]  ──▶  output of that member at row oo[k]
//
// The offset oo[k] is known to the sender and is sent before the rows. The
// transpose sends rows of the cotangent back by the same path; where slices of
// the operand overlap, their cotangents are added.

#ifndef LOCKSTEP_CLIENT_COLLECTIVES_RAGGED_H_
#define LOCKSTEP_CLIENT_COLLECTIVES_RAGGED_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/collectives/call_stream.h"
#include "client/collectives/device_calls.h"
#include "client/transport/common/scratch.h"
#include "lockstep/axis_collective.h"
#include "lockstep/communicator.h"

namespace lockstep::collectives {

// Enqueues `op`, whose types OutputTypes has accepted. Reads the four vectors
// at once; the other memory as the stream reaches the operation. Errors:
// InvalidArgument, with nothing enqueued, for sizes and offsets outside of the
// tensors. The stream's: InvalidArgument if rows from two slices would overlap
// in the output; DataLoss if a member sends another number of rows than
// recv_sizes says, which ends the communicator. ResourceExhausted for want of
// scratch memory.
absl::Status RunRagged(const AxisCollective& op,
                       absl::Span<const TensorType> types,
                       absl::Span<const void* const> inputs,
                       absl::Span<void* const> outputs,
                       const std::shared_ptr<Communicator>& communicator,
                       const std::shared_ptr<transport::ScratchPool>& pool,
                       CallStream& stream);

// The same on a stream of a device that DeviceCalls::CheckStream has accepted.
// The received offsets stay on the device: rows from slices that are not within
// the output are not written (in the transpose: are sent as zeros), and of
// overlapping rows any are; the error is that of the stream and of `outcome`
// (which may be null). A member that sends another number of rows than
// recv_sizes says is not noticed: the transport does not compare numbers.
absl::Status RunRaggedOnDevice(const AxisCollective& op,
                               absl::Span<const TensorType> types,
                               absl::Span<const void* const> inputs,
                               absl::Span<void* const> outputs,
                               Communicator& communicator, DeviceCalls& device,
                               Stream& stream,
                               std::shared_ptr<CallOutcome> outcome);

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_CLIENT_COLLECTIVES_RAGGED_H_
