// The blocks that ranks send each other in a message and in the collectives
// that do not reduce:
//
//   AllGather     `in`, to each rank         Broadcast   the root's `out`
//   AllToAll      block r of `in`, to r      Send        `in`, to the peer
//   AllToAllV     a block for each rank      Barrier     nothing

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COMMON_BLOCKS_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COMMON_BLOCKS_H_

#include <cstdint>
#include <optional>

#include "client/transport/common/collective_op.h"

namespace lockstep::transport {

// A part of a rank's buffer, in bytes.
struct ByteRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// The buffer from which blocks are sent.
inline const void* SourceOf(const CollectiveOp& call) {
  return call.kind == CollectiveKind::kBroadcast ? call.out : call.in;
}

// The block of SourceOf that `from` sends to `to`; nullopt: no message at all,
// not even an empty one. `call` is `from`'s; any rank's unless AllToAllV.
inline std::optional<ByteRange> GivenBlock(const CollectiveOp& call, int from,
                                           int to) {
  const uint64_t bytes = call.bytes();
  switch (call.kind) {
    case CollectiveKind::kAllGather: return ByteRange{0, bytes};
    case CollectiveKind::kAllToAll: return ByteRange{to * bytes, bytes};
    case CollectiveKind::kAllToAllV:
      return ByteRange{call.in_offsets[to] * SizeOf(call.dtype),
                       call.in_counts[to] * SizeOf(call.dtype)};
    case CollectiveKind::kBroadcast:
      if (from != call.peer || to == from) return std::nullopt;
      return ByteRange{0, bytes};
    case CollectiveKind::kSend:
      if (to != call.peer) return std::nullopt;
      return ByteRange{0, bytes};
    default: return std::nullopt;
  }
}

// The block of `out` where `to` receives from `from`. `call` is `to`'s.
inline std::optional<ByteRange> TakenBlock(const CollectiveOp& call, int to,
                                           int from) {
  const uint64_t bytes = call.bytes();
  switch (call.kind) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll: return ByteRange{from * bytes, bytes};
    case CollectiveKind::kAllToAllV:
      return ByteRange{call.out_offsets[from] * SizeOf(call.dtype),
                       call.out_counts[from] * SizeOf(call.dtype)};
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kRecv:
      if (from != call.peer || to == from) return std::nullopt;
      return ByteRange{0, bytes};
    default: return std::nullopt;
  }
}

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_BLOCKS_H_
