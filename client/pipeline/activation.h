// Tensors whose type only the sender knows: a header with the type, then the
// payload.
//
//   0    4        6      7     8          16                     80
//   | LSAC | version | dtype | ndim | elements | extent 0 ... extent 7 |
//
// Numbers are little-endian; extents beyond ndim are 0. Scalars (ndim 0) and
// empty tensors are allowed. If a plan knows the type, no header is needed: use
// Communicator::Send and Recv.
//
// Threads: as Communicator.
// Errors:  those of Communicator at once; InvalidArgument for a tensor that no
//          header can describe (more than 8 dimensions, negative extents);
//          DataLoss for bytes that are no header, or one of another version:
//          its payload was not received, so abort the communicator.

#ifndef LOCKSTEP_CLIENT_PIPELINE_ACTIVATION_H_
#define LOCKSTEP_CLIENT_PIPELINE_ACTIVATION_H_

#include <array>
#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/arena.h"
#include "lockstep/communicator.h"
#include "lockstep/pipeline_stage.h"
#include "lockstep/stream.h"

namespace lockstep {

inline constexpr size_t kActivationHeaderBytes = 80;
inline constexpr size_t kActivationDimensionsMax = 8;

using ActivationHeader = std::array<std::byte, kActivationHeaderBytes>;

// Converts a type to its header, and back.
absl::StatusOr<ActivationHeader> EncodeHeader(const TensorType& type);
absl::StatusOr<TensorType> DecodeHeader(const ActivationHeader& header);

// Enqueues header and payload. `header` is written, and must outlive the
// payload's transfer: until an event recorded after the call is done.
absl::Status SendActivation(Communicator& communicator,
                            const TensorView& tensor, int peer,
                            ActivationHeader* header, Stream& stream);

struct ReceivedActivation {
  TensorView tensor;
  ArenaBuffer memory;  // owns the data of `tensor`
};

// Waits for the header, allocates, and enqueues the receive of the payload,
// which is complete once an event recorded after the call is done. `allocate`
// is called with 1 for an empty tensor; its errors are returned.
absl::StatusOr<ReceivedActivation> RecvActivation(
    Communicator& communicator, int peer,
    const std::function<absl::StatusOr<ArenaBuffer>(size_t)>& allocate,
    Stream& stream);

}  // namespace lockstep

#endif  // LOCKSTEP_CLIENT_PIPELINE_ACTIVATION_H_
