// Tensors whose type only the sender knows: a header says it, then they follow.
//
//   0    4        6      7     8          16                     80
//   | LSAC | version | dtype | ndim | elements | extent 0 ... extent 7 |
//
// Numbers are little-endian; extents beyond ndim are 0. Scalars (ndim 0) and
// empty tensors are tensors like others. Where a plan knows the type of what
// travels no header is sent: then Communicator::Send and Recv do.
//
// Threads: as Communicator.
// Errors:  those of Communicator at once; InvalidArgument for a tensor that no
//          header can describe (more than 8 dimensions, negative extents);
//          DataLoss for a header that is none or of another version: the
//          payload behind it was not received, so end the communicator.

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

// The header of a type, and back.
absl::StatusOr<ActivationHeader> EncodeHeader(const TensorType& type);
absl::StatusOr<TensorType> DecodeHeader(const ActivationHeader& header);

// Enqueues header and payload. `header` is written, and must live as long as
// the payload: until an event recorded after the call is done.
absl::Status SendActivation(Communicator& communicator,
                            const TensorView& tensor, int peer,
                            ActivationHeader* header, Stream& stream);

struct ReceivedActivation {
  TensorView tensor;
  ArenaBuffer memory;  // what `tensor` points into
};

// Waits for the header, allocates, and enqueues the receipt of the payload: it
// is there once an event recorded after the call is done. `allocate` is called
// with 1 for an empty tensor; its errors are returned.
absl::StatusOr<ReceivedActivation> RecvActivation(
    Communicator& communicator, int peer,
    const std::function<absl::StatusOr<ArenaBuffer>(size_t)>& allocate,
    Stream& stream);

}  // namespace lockstep

#endif  // LOCKSTEP_CLIENT_PIPELINE_ACTIVATION_H_
