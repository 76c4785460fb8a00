// Direct exchange: bytes to some peers, bytes from some peers, all at once. The
// whole of Send, Recv, AllGather, AllToAll and a small Broadcast; the moving
// part of the rest.
//
// Everything is posted in Start. What is small travels inside its announcement
// and is copied once on each side; what is large goes from memory to memory, in
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

// At most this travels inside its announcement.
inline constexpr size_t kInlineBytes = 32 << 10;

class Exchange final : public Operation {
 public:
  // `call` says what is announced and which tags are used.
  Exchange(const CollectiveOp& call, Wire wire) : call_(call), wire_(wire) {}

  // The blocks (blocks.h) that `call` gives to `peer` and takes from it; or, of
  // this rank, keeps.
  void AddBlocks(int peer);

  void Give(int peer, const void* data, size_t bytes) {
    gives_.push_back({peer, static_cast<const std::byte*>(data), bytes, bytes});
  }
  // With `data` null, at most kInlineBytes: they stay in scratch, see received.
  void Take(int peer, void* data, size_t bytes) {
    takes_.push_back({peer, static_cast<std::byte*>(data), bytes, bytes});
  }
  // Only the announcement, of all bytes of the call: of what moves by other
  // messages, once Finish has found that the peers agree.
  void GiveNotice(int peer) {
    gives_.push_back({peer, nullptr, 0, call_.bytes()});
  }
  void TakeNotice(int peer) {
    takes_.push_back({peer, nullptr, 0, call_.bytes()});
  }
  // The block that stays on this rank; not copied onto itself.
  void Keep(const void* from, void* to, size_t bytes) {
    keep_ = {from, to, bytes};
  }

  absl::Status Start() override;
  absl::Status Finish() override;

  // Whether Finish would return at once.
  bool Moved() const { return transfers_.Done(); }

  // After Finish: what the `index`th Take received, if it stayed in scratch.
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
        nullptr;  // in heads_: the announcement, the small payload
  };

  struct Kept {
    const void* from = nullptr;
    void* to = nullptr;
    size_t bytes = 0;
  };

  absl::Status PostTakes();
  absl::Status PostGives();

  const CollectiveOp& call_;
  const Wire wire_;
  std::vector<Outgoing> gives_;
  std::vector<Incoming> takes_;
  Kept keep_;
  Scratch heads_;  // declared before the transfers that use it
  Transfers transfers_;
};

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COLLECTIVES_LINK_EXCHANGE_H_
