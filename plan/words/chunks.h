// Cuts a registration into messages that every coordinator takes.

#ifndef LOCKSTEP_PLAN_WORDS_CHUNKS_H_
#define LOCKSTEP_PLAN_WORDS_CHUNKS_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "plan/words/parameter.h"
#include "plan/words/protocol.h"

namespace lockstep::protocol {

// Far below the 1 MiB that the protocol promises and the 4 MiB that gRPC takes.
inline constexpr size_t kChunkBytesMax = 256 << 10;

// At least one chunk; the last one says so. InvalidArgument for a parameter
// that alone would not fit.
absl::StatusOr<std::vector<RegisterChunk>> CutIntoChunks(
    const std::vector<Parameter>& parameters);

}  // namespace lockstep::protocol

#endif  // LOCKSTEP_PLAN_WORDS_CHUNKS_H_
