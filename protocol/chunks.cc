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

size_t WireBytes(const StateSpec& state) {
  constexpr size_t kNumber = 12;
  size_t bytes = 8 * kNumber + state.name.size() + state.sliced_like.size();
  bytes += state.shape.size() * kNumber;
  for (const StateCut& cut : state.cuts) {
    bytes += 2 * kNumber;
    for (const std::string& axis : cut.axes) bytes += kNumber + axis.size();
  }
  return bytes;
}

class ChunkList {
 public:
  // Begins another chunk where `part` does not fit in this one.
  template <typename T>
  absl::Status Add(const char* kind, const T& part,
                   std::vector<T> RegisterChunk::*list) {
    const size_t bytes = WireBytes(part);
    if (bytes > kChunkBytesMax) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s %.60s...: its description takes %d bytes, more than %d", kind,
          part.name, bytes, kChunkBytesMax));
    }
    if (filled_ + bytes > kChunkBytesMax) {
      chunks_.push_back({.index = static_cast<uint32_t>(chunks_.size())});
      filled_ = 0;
    }
    (chunks_.back().*list).push_back(part);
    filled_ += bytes;
    return absl::OkStatus();
  }

  std::vector<RegisterChunk> Take() {
    chunks_.back().last = true;
    return std::move(chunks_);
  }

 private:
  std::vector<RegisterChunk> chunks_{1};
  size_t filled_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<RegisterChunk>> CutIntoChunks(
    const std::vector<Parameter>& parameters,
    const std::vector<StateSpec>& states) {
  ChunkList chunks;
  for (const Parameter& parameter : parameters) {
    absl::Status added =
        chunks.Add("parameter", parameter, &RegisterChunk::parameters);
    if (!added.ok()) return added;
  }
  for (const StateSpec& state : states) {
    absl::Status added = chunks.Add("state", state, &RegisterChunk::states);
    if (!added.ok()) return added;
  }
  return chunks.Take();
}

size_t RegistrationBytes(const RegisterChunk& chunk) {
  size_t bytes = 0;
  for (const Parameter& parameter : chunk.parameters) {
    bytes += WireBytes(parameter);
  }
  for (const StateSpec& state : chunk.states) bytes += WireBytes(state);
  return bytes;
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

std::vector<PlanPart> CutIntoParts(const std::string& digest,
                                   const std::string& plan) {
  std::vector<PlanPart> parts;
  for (size_t offset = 0; offset < plan.size(); offset += kChunkBytesMax) {
    parts.push_back({.digest = digest,
                     .total_bytes = plan.size(),
                     .offset = offset,
                     .data = plan.substr(offset, kChunkBytesMax)});
  }
  return parts;
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
