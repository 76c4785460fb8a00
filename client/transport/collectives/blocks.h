// What ranks give each other in the collectives that only move bytes, and in a
// message:
//
//   AllGather     its `in`, to each          Broadcast   the root's `out`
//   AllToAll      block r of `in`, to r      Send        `in`, to the peer
//   AllToAllV     its own block for each     Barrier     nothing

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_BLOCKS_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_BLOCKS_H_

#include <cstdint>
#include <optional>

#include "client/transport/common/collective_op.h"

namespace lockstep::transport {

// A part of a rank's buffer, in bytes.
struct Block {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// The buffer that blocks are given from.
inline const void* SourceOf(const CollectiveOp& call) {
  return call.kind == CollectiveKind::kBroadcast ? call.out : call.in;
}

// What `from` gives to `to`, in its source; none: nothing passes between them,
// however much there is. `call` is `from`'s, or, but for AllToAllV, any rank's.
inline std::optional<Block> GivenBlock(const CollectiveOp& call, int from,
                                       int to) {
  const uint64_t bytes = call.bytes();
  switch (call.kind) {
    case CollectiveKind::kAllGather: return Block{0, bytes};
    case CollectiveKind::kAllToAll: return Block{to * bytes, bytes};
    case CollectiveKind::kAllToAllV:
      return Block{call.in_offsets[to] * SizeOf(call.dtype),
                   call.in_counts[to] * SizeOf(call.dtype)};
    case CollectiveKind::kBroadcast:
      if (from != call.peer || to == from) return std::nullopt;
      return Block{0, bytes};
    case CollectiveKind::kSend:
      if (to != call.peer) return std::nullopt;
      return Block{0, bytes};
    default: return std::nullopt;
  }
}

// Where `to`, whose `call` it is, has what `from` gives it, in its `out`.
inline std::optional<Block> TakenBlock(const CollectiveOp& call, int to,
                                       int from) {
  const uint64_t bytes = call.bytes();
  switch (call.kind) {
    case CollectiveKind::kAllGather:
    case CollectiveKind::kAllToAll: return Block{from * bytes, bytes};
    case CollectiveKind::kAllToAllV:
      return Block{call.out_offsets[from] * SizeOf(call.dtype),
                   call.out_counts[from] * SizeOf(call.dtype)};
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kRecv:
      if (from != call.peer || to == from) return std::nullopt;
      return Block{0, bytes};
    default: return std::nullopt;
  }
}

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_BLOCKS_H_
