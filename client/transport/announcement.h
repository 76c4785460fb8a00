// What every operation says first to each peer it has bytes for: which
// operation it is and how many bytes will come. So that ranks that disagree
// about what they are doing get an error instead of each other's bytes.
//
//   message 0   [announcement 16 B][payload, if it is small]
//   message 1.. [a piece of the payload] ...                    if it is large

#ifndef LOCKSTEP_CLIENT_TRANSPORT_ANNOUNCEMENT_H_
#define LOCKSTEP_CLIENT_TRANSPORT_ANNOUNCEMENT_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "absl/status/status.h"
#include "client/transport/call.h"
#include "client/transport/link.h"
#include "client/transport/transfers.h"

namespace lockstep::transport {

struct Announcement {
  CallKind kind = CallKind::kBarrier;
  DType dtype = DType::kU8;
  ReduceOp op = ReduceOp::kSum;
  bool in_pairs = false;
  int32_t root = 0;
  uint64_t bytes = 0;  // from this rank to that peer

  friend bool operator==(const Announcement&, const Announcement&) = default;
};
static_assert(sizeof(Announcement) == 16);

// What `call` announces, or expects to be announced, for `bytes`. The same on
// both sides of a transfer.
Announcement Announce(const Call& call, size_t bytes);

// DataLoss, blaming `peer`, if it announced something else.
absl::Status CheckAnnouncement(const void* received,
                               const Announcement& expected, int peer);

// The announcements of one operation, as messages of their own.
class Announcements {
 public:
  Announcements(const Call& call, size_t bytes, Link& link)
      : link_(link), tag_(call.tag), own_(Announce(call, bytes)) {}

  // Posts message `number` of the operation, to or from `peer`.
  absl::Status Give(int peer, uint64_t number = 0);
  absl::Status Expect(int peer, uint64_t number = 0);

  // Whether Agree would return at once.
  bool HaveMoved() const { return transfers_.Done(); }

  // Blocks until all that was posted has moved; DataLoss if a peer announced
  // something else than this rank did.
  absl::Status Agree();

 private:
  struct Heard {
    int peer;
    Announcement announcement;
  };

  Link& link_;
  const uint64_t tag_;
  const Announcement own_;
  std::deque<Heard> heard_;  // its entries do not move
  Transfers transfers_;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_ANNOUNCEMENT_H_
