// Cuts what may be large into messages that every receiver takes.

#ifndef LOCKSTEP_PROTOCOL_CHUNKS_H_
#define LOCKSTEP_PROTOCOL_CHUNKS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protocol/parameter.h"
#include "protocol/protocol.h"

namespace lockstep::protocol {

// Far below the 1 MiB that the protocol promises and the 4 MiB that gRPC takes.
inline constexpr size_t kChunkBytesMax = 256 << 10;

// At least one chunk; the last one says so. InvalidArgument for a parameter
// that alone would not fit.
absl::StatusOr<std::vector<RegisterChunk>> CutIntoChunks(
    const std::vector<Parameter>& parameters);

// A rank's handles, in order. A handle that alone is larger gets a message of
// its own; the codec refuses those above 64 KiB.
std::vector<PublishHandles> CutIntoMessages(std::vector<GroupHandle> handles);

// All handles of a communicator. At least one piece; `more` on all but the
// last.
std::vector<GroupHandles> CutIntoPieces(int communicator,
                                        std::vector<std::string> handles);

}  // namespace lockstep::protocol

#endif  // LOCKSTEP_PROTOCOL_CHUNKS_H_
