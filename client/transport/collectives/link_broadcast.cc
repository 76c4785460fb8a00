#include "client/transport/collectives/link_broadcast.h"

#include <cstddef>

#include "client/transport/collectives/link_exchange.h"
#include "client/transport/collectives/link_transfers.h"
#include "client/transport/common/slices.h"

namespace lockstep::transport {
namespace {

constexpr size_t kBroadcastChunkBytes = 512 << 10;
constexpr size_t kSpreadBytesMin = 256 << 10;

class Spread final : public LinkOperation {
 public:
  Spread(const CollectiveOp& call, LinkContext wire)
      : call_(call),
        wire_(wire),
        slices_(call.count, wire.size() - 1,
                kBroadcastChunkBytes / SizeOf(call.dtype)),
        announcements_(call, wire) {}

  absl::Status Start() override { return root() ? Give() : Expect(); }

  absl::Status Finish() override {
    if (absl::Status agreed = announcements_.Finish(); !agreed.ok()) {
      return agreed;
    }
    if (absl::Status passed = PassOn(); !passed.ok()) return passed;
    return transfers_.WaitAll();
  }

 private:
  bool root() const { return wire_.rank() == call_.peer; }

  // The owners of the slices are the ranks except the root, in order.
  SliceRange ChunkOf(int owner, size_t c) const {
    return slices_.Chunk(owner - (owner > call_.peer ? 1 : 0), c);
  }
  std::byte* At(SliceRange range) const {
    return static_cast<std::byte*>(call_.out) +
           range.begin * SizeOf(call_.dtype);
  }

  absl::Status Send(int peer, int owner, size_t c) {
    const SliceRange range = ChunkOf(owner, c);
    if (range.count == 0) return absl::OkStatus();
    return transfers_.Add(wire_.link.Send(peer, call_.tag + 1 + c, At(range),
                                          range.count * SizeOf(call_.dtype)));
  }
  absl::Status Recv(int peer, int owner, size_t c, Transfers& into) {
    const SliceRange range = ChunkOf(owner, c);
    if (range.count == 0) return absl::OkStatus();
    return into.Add(wire_.link.Recv(peer, call_.tag + 1 + c, At(range),
                                    range.count * SizeOf(call_.dtype)));
  }

  // Calls post(peer) for each rank except this one and the root.
  template <typename F>
  absl::Status ForOthers(F post) {
    for (int peer = 0; peer < wire_.size(); ++peer) {
      if (peer == wire_.rank() || peer == call_.peer) continue;
      if (absl::Status posted = post(peer); !posted.ok()) return posted;
    }
    return absl::OkStatus();
  }

  absl::Status Give() {
    for (int peer = 0; peer < wire_.size(); ++peer) {
      if (peer != call_.peer) announcements_.GiveNotice(peer);
    }
    absl::Status posted = announcements_.Start();
    for (size_t c = 0; c < slices_.chunks(); ++c) {
      posted.Update(ForOthers([&](int peer) { return Send(peer, peer, c); }));
    }
    return posted;
  }

  absl::Status Expect() {
    announcements_.TakeNotice(call_.peer);
    absl::Status posted = announcements_.Start();
    for (size_t c = 0; c < slices_.chunks(); ++c) {
      posted.Update(Recv(call_.peer, wire_.rank(), c, own_));
      posted.Update(
          ForOthers([&](int peer) { return Recv(peer, peer, c, transfers_); }));
    }
    return posted;
  }

  // Forwards the chunks of this rank's slice to the others as they arrive.
  absl::Status PassOn() {
    for (size_t c = 0; !own_.empty(); ++c) {
      absl::Status done = own_.WaitDownTo(own_.size() - 1);
      done.Update(
          ForOthers([&](int peer) { return Send(peer, wire_.rank(), c); }));
      if (!done.ok()) return done;
    }
    return absl::OkStatus();
  }

  const CollectiveOp& call_;
  const LinkContext wire_;
  const Slices slices_;
  LinkExchange announcements_;
  Transfers own_;  // this rank's slice, from the root; empty on the root
  Transfers transfers_;
};

}  // namespace

bool IsSpread(const CollectiveOp& call, int ranks) {
  return ranks > 2 && call.bytes() >= kSpreadBytesMin;
}

std::unique_ptr<LinkOperation> MakeSpread(const CollectiveOp& call,
                                          LinkContext wire) {
  return std::make_unique<Spread>(call, wire);
}

}  // namespace lockstep::transport
