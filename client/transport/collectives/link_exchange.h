// Direct exchange: sends to some peers and receives from some peers, all at
// once. It is all of Send, Recv, AllGather, AllToAll and a small Broadcast; the
// other collectives use it for announcements.
//
// Start posts all transfers. A small payload is sent inside the announcement
// and copied once on each side. A large one is sent from the buffer itself, in
// pieces, so that an abort never waits for a long copy.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_EXCHANGE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_EXCHANGE_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "client/transport/collectives/link_operation.h"
#include "client/transport/collectives/link_transfers.h"
#include "client/transport/common/announcement.h"

namespace lockstep::transport {

// The largest payload that is sent inside the announcement.
inline constexpr size_t kInlineBytes = 32 << 10;

class LinkExchange final : public LinkOperation {
 public:
  // `call`: the source of the announcement and of the tags.
  LinkExchange(const CollectiveOp& call, LinkContext wire)
      : call_(call), wire_(wire) {}

  // Adds the blocks (blocks.h) that `call` sends to `peer` and receives from
  // it. For this rank itself: the block that it keeps.
  void AddBlocks(int peer);

  void Give(int peer, const void* data, size_t bytes) {
    gives_.push_back({peer, static_cast<const std::byte*>(data), bytes, bytes});
  }
  // If `data` is null, at most kInlineBytes, which stay in scratch: received().
  void Take(int peer, void* data, size_t bytes) {
    takes_.push_back({peer, static_cast<std::byte*>(data), bytes, bytes});
  }
  // The announcement only, for all bytes of the call. The caller moves these by
  // other messages, after Finish has found that the peers agree.
  void GiveNotice(int peer) {
    gives_.push_back({peer, nullptr, 0, call_.bytes()});
  }
  void TakeNotice(int peer) {
    takes_.push_back({peer, nullptr, 0, call_.bytes()});
  }
  // Adds the block that stays on this rank. No copy if in place.
  void Keep(const void* from, void* to, size_t bytes) {
    keep_ = {from, to, bytes};
  }

  absl::Status Start() override;
  absl::Status Finish() override;

  // Whether Finish would return at once.
  bool Moved() const { return transfers_.Done(); }

  // After Finish: the payload of the `index`th Take, if it is in scratch.
  const std::byte* received(size_t index) const {
    return takes_[index].head + sizeof(Announcement);
  }

 private:
  struct Outgoing {
    int peer;
    const std::byte* data;
    size_t bytes;
    size_t announced;
  };
  struct Incoming {
    int peer;
    std::byte* data;
    size_t bytes;
    size_t announced;
    std::byte* head =
        nullptr;  // in heads_: the announcement and a small payload
  };

  struct Kept {
    const void* from = nullptr;
    void* to = nullptr;
    size_t bytes = 0;
  };

  absl::Status PostTakes();
  absl::Status PostGives();

  const CollectiveOp& call_;
  const LinkContext wire_;
  std::vector<Outgoing> gives_;
  std::vector<Incoming> takes_;
  Kept keep_;
  Scratch heads_;  // declared before the transfers that use it
  Transfers transfers_;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_EXCHANGE_H_
