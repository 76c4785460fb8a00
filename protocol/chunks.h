// Splits large data into messages that every receiver accepts.

#ifndef LOCKSTEP_PROTOCOL_CHUNKS_H_
#define LOCKSTEP_PROTOCOL_CHUNKS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/state_spec.h"
#include "protocol/parameter.h"
#include "protocol/registration.h"

namespace lockstep::protocol {

// Far below the 1 MiB that the protocol guarantees and the 4 MiB limit of gRPC.
inline constexpr size_t kChunkBytesMax = 256 << 10;

// At least one chunk; `last` is set on the last one. InvalidArgument for a
// parameter or a state that exceeds a chunk.
absl::StatusOr<std::vector<RegisterChunk>> CutIntoChunks(
    const std::vector<Parameter>& parameters,
    const std::vector<StateSpec>& states = {});

// An upper bound of the bytes that the chunk's parameters and states take on
// the wire.
size_t RegistrationBytes(const RegisterChunk& chunk);

// A rank's handles, in order. A handle that exceeds kChunkBytesMax has a
// separate message; the codec refuses handles above 64 KiB.
std::vector<PublishHandles> CutIntoMessages(std::vector<GroupHandle> handles);

// A serialised plan, which is not empty.
std::vector<PlanPart> CutIntoParts(const std::string& digest,
                                   const std::string& plan);

// All handles of a communicator. At least one message; `more` is set on all but
// the last.
std::vector<GroupHandles> CutIntoPieces(int communicator,
                                        std::vector<std::string> handles);

}  // namespace lockstep::protocol

#endif  // LOCKSTEP_PROTOCOL_CHUNKS_H_
