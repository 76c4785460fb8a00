#include "plan/words/chunks.h"

#include "absl/strings/str_format.h"

namespace lockstep::protocol {
namespace {

// At least what the parameter takes on the wire: strings with their lengths,
// numbers at their longest.
size_t WireBytes(const Parameter& parameter) {
  constexpr size_t kNumber = 12;
  size_t bytes = 4 * kNumber + parameter.name.size();
  bytes += parameter.shape.size() * kNumber;
  for (const auto* axes : {&parameter.axes, &parameter.replicated_over}) {
    for (const std::string& axis : *axes) bytes += kNumber + axis.size();
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::vector<RegisterChunk>> CutIntoChunks(
    const std::vector<Parameter>& parameters) {
  std::vector<RegisterChunk> chunks(1);
  size_t filled = 0;
  for (const Parameter& parameter : parameters) {
    const size_t bytes = WireBytes(parameter);
    if (bytes > kChunkBytesMax) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "parameter %.60s...: its description takes %d bytes, more than %d",
          parameter.name, bytes, kChunkBytesMax));
    }
    if (filled + bytes > kChunkBytesMax) {
      chunks.push_back({.index = static_cast<uint32_t>(chunks.size())});
      filled = 0;
    }
    chunks.back().parameters.push_back(parameter);
    filled += bytes;
  }
  chunks.back().last = true;
  return chunks;
}

}  // namespace lockstep::protocol
