// The first message of every operation to each peer that it sends to: the kind
// of operation and the number of bytes. If ranks run different operations, they
// get an error instead of each other's bytes.
//
//   message 0   [announcement 16 B][payload, if it is small]
//   message 1.. [a piece of the payload] ...          if it is large

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COMMON_ANNOUNCEMENT_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COMMON_ANNOUNCEMENT_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "client/transport/common/collective_op.h"

namespace lockstep::transport {

struct Announcement {
  CollectiveKind kind = CollectiveKind::kBarrier;
  DType dtype = DType::kU8;
  ReduceOp op = ReduceOp::kSum;
  uint8_t in_pairs = 0;  // not bool: a peer may send any byte
  int32_t root = 0;
  uint64_t bytes = 0;  // from this rank to that peer

  friend bool operator==(const Announcement&, const Announcement&) = default;
};
static_assert(sizeof(Announcement) == 16);

// The announcement that `call` sends, or expects, for `bytes`. Equal on both
// sides of a transfer.
Announcement Announce(const CollectiveOp& call, size_t bytes);

// DataLoss, with failed peer `peer`, if `received` is not `expected`.
absl::Status CheckAnnouncement(const void* received,
                               const Announcement& expected, int peer);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_ANNOUNCEMENT_H_
