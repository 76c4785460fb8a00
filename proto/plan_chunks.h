// Splits a plan, which exceeds a message, into chunks, and joins them.
//
// Threads: pure functions; a PlanAssembler has one caller.

#ifndef LOCKSTEP_PROTO_PLAN_CHUNKS_H_
#define LOCKSTEP_PROTO_PLAN_CHUNKS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "lockstep/v1/session.pb.h"
#include "plan/ir.h"
#include "proto/codec.h"

namespace lockstep::proto {

inline constexpr size_t kChunkBytes = 512 << 10;
inline constexpr uint64_t kPlanBytesMax = 1 << 30;

// The serialised plan, as FetchPlan's chunks transfer it; also the format of
// plan files.
std::string PlanBytes(const plan::Plan& plan);

// The inverse of PlanBytes. InvalidArgument if the bytes are not a plan. Does
// not verify it.
absl::StatusOr<plan::Plan> PlanFromBytes(const std::string& bytes);

// The chunk of PlanBytes that starts at `offset`.
v1::PlanChunk PlanChunkAt(const Header& header, const std::string& plan_bytes,
                          size_t offset, size_t bytes_max = kChunkBytes);

// Joins the chunks of one plan.
class PlanAssembler {
 public:
  // InvalidArgument: a chunk that does not follow the previous one, is empty,
  // exceeds the total, or has another total; ResourceExhausted: more than
  // kPlanBytesMax.
  absl::Status Add(const v1::PlanChunk& chunk);

  // DataLoss if chunks are missing, InvalidArgument if the bytes are not a
  // plan.
  absl::StatusOr<plan::Plan> Finish() const;

  // The bytes of all chunks, once.
  std::string TakeBytes() { return std::move(bytes_); }

 private:
  uint64_t total_ = 0;  // 0: before the first chunk
  std::string bytes_;
};

}  // namespace lockstep::proto

#endif  // LOCKSTEP_PROTO_PLAN_CHUNKS_H_
