#include "protocol/chunks.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace lockstep::protocol {
namespace {

constexpr size_t kHandleOverhead = 24;  // lengths and the communicator

// An upper bound of the parameter's bytes on the wire: strings with their
// lengths, numbers at their longest.
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

std::vector<PublishHandles> CutIntoMessages(std::vector<GroupHandle> handles) {
  std::vector<PublishHandles> messages(1);
  size_t filled = 0;
  for (GroupHandle& handle : handles) {
    const size_t bytes = kHandleOverhead + handle.handle.size();
    if (filled > 0 && filled + bytes > kChunkBytesMax) {
      messages.emplace_back();
      filled = 0;
    }
    messages.back().handles.push_back(std::move(handle));
    filled += bytes;
  }
  return messages;
}

std::vector<GroupHandles> CutIntoPieces(int communicator,
                                        std::vector<std::string> handles) {
  std::vector<GroupHandles> pieces;
  std::vector<std::string> piece;
  size_t filled = 0;
  uint32_t first = 0;
  const auto end_piece = [&](bool more) {
    const auto next = first + static_cast<uint32_t>(piece.size());
    pieces.push_back({.communicator = communicator,
                      .handles = std::exchange(piece, {}),
                      .first = first,
                      .more = more});
    first = next;
    filled = 0;
  };
  for (std::string& handle : handles) {
    const size_t bytes = kHandleOverhead + handle.size();
    if (filled > 0 && filled + bytes > kChunkBytesMax) end_piece(true);
    piece.push_back(std::move(handle));
    filled += bytes;
  }
  end_piece(false);
  return pieces;
}

}  // namespace lockstep::protocol
