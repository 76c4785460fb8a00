// What is larger than a message travels in pieces.
//
// Threads: pure functions; a PlanAssembler is one caller's own.

#ifndef LOCKSTEP_PROTO_CHUNKS_H_
#define LOCKSTEP_PROTO_CHUNKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/v1/session.pb.h"
#include "plan/ir.h"
#include "plan/words/parameter.h"
#include "plan/words/protocol.h"
#include "proto/codec.h"

namespace lockstep::proto {

inline constexpr size_t kChunkBytes = 512 << 10;
inline constexpr uint64_t kPlanBytesMax = 1 << 30;

// The parameters, in order, in chunks of at most `bytes_max` on the wire each;
// a parameter larger than that is alone in its chunk. At least one chunk, the
// last is marked.
std::vector<protocol::RegisterChunk> ChunkParameters(
    const std::vector<Parameter>& parameters, size_t bytes_max = kChunkBytes);

// A plan as FetchPlan's chunks carry it, joined.
std::string PlanBytes(const plan::Plan& plan);

// The chunk of PlanBytes that begins at `offset`.
v1::PlanChunk PlanChunkAt(const Header& header, const std::string& plan_bytes,
                          size_t offset, size_t bytes_max = kChunkBytes);

// Joins the chunks of one plan.
class PlanAssembler {
 public:
  // InvalidArgument: a chunk that does not follow, is empty, goes beyond the
  // whole or says another size of it; ResourceExhausted: more than
  // kPlanBytesMax.
  absl::Status Add(const v1::PlanChunk& chunk);

  // DataLoss if chunks are missing, InvalidArgument if the bytes are no plan.
  absl::StatusOr<plan::Plan> Finish() const;

 private:
  uint64_t total_ = 0;  // 0: before the first chunk
  std::string bytes_;
};

}  // namespace lockstep::proto

#endif  // LOCKSTEP_PROTO_CHUNKS_H_
