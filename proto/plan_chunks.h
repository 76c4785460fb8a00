// A plan is larger than a message, and travels in pieces.
//
// Threads: pure functions; a PlanAssembler is one caller's own.

#ifndef LOCKSTEP_PROTO_PLAN_CHUNKS_H_
#define LOCKSTEP_PROTO_PLAN_CHUNKS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "lockstep/v1/session.pb.h"
#include "plan/ir.h"
#include "proto/codec.h"

namespace lockstep::proto {

inline constexpr size_t kChunkBytes = 512 << 10;
inline constexpr uint64_t kPlanBytesMax = 1 << 30;

// A plan as FetchPlan's chunks carry it, joined: also the form of plan files.
std::string PlanBytes(const plan::Plan& plan);

// Reads it back. InvalidArgument if the bytes are no plan. Does not verify it.
absl::StatusOr<plan::Plan> PlanFromBytes(const std::string& bytes);

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

#endif  // LOCKSTEP_PROTO_PLAN_CHUNKS_H_
