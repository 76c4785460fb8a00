#include "proto/plan_chunks.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace lockstep::proto {

std::string PlanBytes(const plan::Plan& plan) {
  return ToProto(plan).SerializeAsString();
}

absl::StatusOr<plan::Plan> PlanFromBytes(const std::string& bytes) {
  v1::Plan plan;
  if (!plan.ParseFromString(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes.size(), " bytes are no plan"));
  }
  return FromProto(plan);
}

v1::PlanChunk PlanChunkAt(const Header& header, const std::string& plan_bytes,
                          size_t offset, size_t bytes_max) {
  v1::PlanChunk chunk;
  *chunk.mutable_header() = ToProto(header);
  chunk.set_total_bytes(plan_bytes.size());
  chunk.set_offset(offset);
  chunk.set_data(plan_bytes.substr(offset, bytes_max));
  return chunk;
}

absl::Status PlanAssembler::Add(const v1::PlanChunk& chunk) {
  if (chunk.total_bytes() > kPlanBytesMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a plan of ", chunk.total_bytes(),
                     " bytes is larger than ", kPlanBytesMax));
  }
  if (total_ == 0) total_ = chunk.total_bytes();
  const bool follows = chunk.offset() == bytes_.size();
  const bool fits = chunk.data().size() <= total_ - bytes_.size();
  if (chunk.total_bytes() != total_ || !follows || !fits ||
      chunk.data().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a chunk of ", chunk.data().size(), " bytes at ",
                     chunk.offset(), " of ", chunk.total_bytes(),
                     " does not follow ", bytes_.size(), " bytes of ", total_));
  }
  bytes_ += chunk.data();
  return absl::OkStatus();
}

absl::StatusOr<plan::Plan> PlanAssembler::Finish() const {
  if (total_ == 0 || bytes_.size() != total_) {
    return absl::DataLossError(absl::StrCat(
        "the plan ended after ", bytes_.size(), " bytes of ", total_));
  }
  return PlanFromBytes(bytes_);
}

}  // namespace lockstep::proto
