#include "proto/chunks.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/codec_common.h"

namespace lockstep::proto {
namespace {

// A repeated field's entry: its tag and its length take at most 1 + 5 bytes.
size_t WireBytes(const Parameter& parameter) {
  v1::Parameter wire;
  Write(parameter, &wire);
  return wire.ByteSizeLong() + 6;
}

// Header and the chunk's own fields.
constexpr size_t kEnvelopeBytes = 2 * kNameBytesMax;

}  // namespace

std::vector<protocol::RegisterChunk> ChunkParameters(
    const std::vector<Parameter>& parameters, size_t bytes_max) {
  std::vector<protocol::RegisterChunk> chunks(1);
  size_t bytes = kEnvelopeBytes;
  for (const Parameter& parameter : parameters) {
    const size_t more = WireBytes(parameter);
    const size_t count = chunks.back().parameters.size();
    if (count > 0 &&
        (bytes + more > bytes_max || count == kParametersInChunkMax)) {
      chunks.push_back({.index = static_cast<uint32_t>(chunks.size())});
      bytes = kEnvelopeBytes;
    }
    bytes += more;
    chunks.back().parameters.push_back(parameter);
  }
  chunks.back().last = true;
  return chunks;
}

std::string PlanBytes(const plan::Plan& plan) {
  return ToProto(plan).SerializeAsString();
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
  v1::Plan plan;
  if (!plan.ParseFromString(bytes_)) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes_.size(), " bytes are no plan"));
  }
  return FromProto(plan);
}

}  // namespace lockstep::proto
