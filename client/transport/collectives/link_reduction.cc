#include "client/transport/collectives/link_reduction.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "client/transport/collectives/link_exchange.h"
#include "client/transport/collectives/link_transfers.h"
#include "client/transport/common/reduce_rows.h"
#include "client/transport/common/slices.h"

namespace lockstep::transport {
namespace {

constexpr size_t kChunkBytes = 512 << 10;
constexpr size_t kAhead = 3;   // chunks of contributions in flight
constexpr size_t kBehind = 4;  // chunks whose sends and results are in flight

const std::byte* At(const void* data, size_t index, DType dtype) {
  return static_cast<const std::byte*>(data) + index * SizeOf(dtype);
}
std::byte* At(void* data, size_t index, DType dtype) {
  return static_cast<std::byte*>(data) + index * SizeOf(dtype);
}

// Each rank sends its contribution to every other, and reduces what it needs.
class SmallReduction final : public LinkOperation {
 public:
  SmallReduction(const CollectiveOp& call, LinkContext wire)
      : call_(call), wire_(wire), exchange_(call, wire) {
    for (int peer = 0; peer < wire.size(); ++peer) {
      if (peer == wire.rank()) continue;
      exchange_.Give(peer, ByteRange(peer), call.bytes());
      exchange_.Take(peer, nullptr, call.bytes());
    }
  }

  absl::Status Start() override { return exchange_.Start(); }

  absl::Status Finish() override {
    if (absl::Status moved = exchange_.Finish(); !moved.ok()) return moved;
    std::vector<const void*> inputs;
    for (int rank = 0; rank < wire_.size(); ++rank) {
      const size_t others_before = rank - (rank > wire_.rank() ? 1 : 0);
      inputs.push_back(rank == wire_.rank()
                           ? ByteRange(rank)
                           : exchange_.received(others_before));
    }
    ReduceRows(inputs, {&call_.out, 1}, call_.count, call_);
    return absl::OkStatus();
  }

 private:
  // The part of this rank's input that `rank` reduces.
  const std::byte* ByteRange(int rank) const {
    const bool scatter = call_.kind == CollectiveKind::kReduceScatter;
    return At(call_.in, scatter ? rank * call_.count : 0, call_.dtype);
  }

  const CollectiveOp& call_;
  const LinkContext wire_;
  LinkExchange exchange_;
};

class LargeReduction final : public LinkOperation {
 public:
  LargeReduction(const CollectiveOp& call, LinkContext wire)
      : call_(call),
        wire_(wire),
        slices_(call.kind == CollectiveKind::kReduceScatter
                    ? call.count * wire.size()
                    : call.count,
                wire.size(), kChunkBytes / SizeOf(call.dtype)),
        announcements_(call, wire) {}

  absl::Status Start() override {
    const size_t room = kAhead * (wire_.size() - 1) * ChunkBytes();
    absl::Status posted = wire_.scratch.Take(room, &room_);
    if (!posted.ok()) return posted;
    for (int peer = 0; peer < wire_.size(); ++peer) {
      if (peer == wire_.rank()) continue;
      announcements_.TakeNotice(peer);
      announcements_.GiveNotice(peer);
    }
    posted = announcements_.Start();
    for (size_t c = 0; c < kAhead; ++c) posted.Update(PostContributions(c));
    return posted;
  }

  absl::Status Finish() override {
    if (absl::Status agreed = announcements_.Finish(); !agreed.ok()) {
      return agreed;
    }
    for (size_t c = 0; c < slices_.chunks(); ++c) {
      absl::Status done = contributions_[c % kAhead].WaitAll();
      if (!done.ok()) return done;
      Reduce(c);
      done.Update(PostResults(c));
      done.Update(PostContributions(c + kAhead));
      done.Update(outgoing_.WaitDownTo(kBehind * 3 * (wire_.size() - 1)));
      if (!done.ok()) return done;
    }
    return outgoing_.WaitAll();
  }

 private:
  size_t ChunkBytes() const { return slices_.chunk() * SizeOf(call_.dtype); }
  size_t Bytes(SliceRange range) const {
    return range.count * SizeOf(call_.dtype);
  }
  bool scatter() const { return call_.kind == CollectiveKind::kReduceScatter; }

  // Message 0: the announcement. Then, per chunk: a contribution, a result.
  uint64_t ContributionTag(size_t c) const { return call_.tag + 1 + 2 * c; }
  uint64_t ResultTag(size_t c) const { return call_.tag + 2 + 2 * c; }

  template <typename F>
  absl::Status ForPeers(F post) {
    for (int step = 1; step < wire_.size(); ++step) {
      // Each rank starts with another peer.
      const int peer = (wire_.rank() + step) % wire_.size();
      if (absl::Status posted = post(peer); !posted.ok()) return posted;
    }
    return absl::OkStatus();
  }

  // The receive buffer for chunk `c` of `peer`'s contribution to this rank's
  // slice.
  std::byte* Contribution(int peer, size_t c) const {
    const size_t other = peer - (peer > wire_.rank() ? 1 : 0);
    return room_.data() +
           ((c % kAhead) * (wire_.size() - 1) + other) * ChunkBytes();
  }

  absl::Status PostContributions(size_t c) {
    return ForPeers([&](int peer) {
      const SliceRange mine = slices_.Chunk(wire_.rank(), c);
      const SliceRange theirs = slices_.Chunk(peer, c);
      absl::Status posted;
      if (mine.count > 0) {
        posted = contributions_[c % kAhead].Add(wire_.link.Recv(
            peer, ContributionTag(c), Contribution(peer, c), Bytes(mine)));
      }
      if (theirs.count > 0) {
        posted.Update(outgoing_.Add(wire_.link.Send(
            peer, ContributionTag(c), At(call_.in, theirs.begin, call_.dtype),
            Bytes(theirs))));
      }
      return posted;
    });
  }

  // The address of this rank's reduced chunk `mine` in `out`.
  std::byte* Result(SliceRange mine) const {
    const size_t before =
        scatter() ? slices_.Slice(wire_.rank()).begin : size_t{0};
    return At(call_.out, mine.begin - before, call_.dtype);
  }

  void Reduce(size_t c) {
    const SliceRange mine = slices_.Chunk(wire_.rank(), c);
    if (mine.count == 0) return;
    inputs_.clear();
    for (int rank = 0; rank < wire_.size(); ++rank) {
      inputs_.push_back(rank == wire_.rank()
                            ? At(call_.in, mine.begin, call_.dtype)
                            : Contribution(rank, c));
    }
    void* const out = Result(mine);
    ReduceRows(inputs_, {&out, 1}, mine.count, call_);
  }

  // A peer sends a result only after it has received all contributions to it.
  // So if in place, a received result overwrites only what has been sent.
  absl::Status PostResults(size_t c) {
    if (scatter()) return absl::OkStatus();
    return ForPeers([&](int peer) {
      const SliceRange mine = slices_.Chunk(wire_.rank(), c);
      const SliceRange theirs = slices_.Chunk(peer, c);
      absl::Status posted;
      if (theirs.count > 0) {
        posted = outgoing_.Add(wire_.link.Recv(
            peer, ResultTag(c), At(call_.out, theirs.begin, call_.dtype),
            Bytes(theirs)));
      }
      if (mine.count > 0) {
        posted.Update(outgoing_.Add(
            wire_.link.Send(peer, ResultTag(c), Result(mine), Bytes(mine))));
      }
      return posted;
    });
  }

  const CollectiveOp& call_;
  const LinkContext wire_;
  const Slices slices_;
  LinkExchange announcements_;
  std::vector<const void*> inputs_;
  Scratch room_;  // declared before the transfers that use it
  std::array<Transfers, kAhead> contributions_;
  Transfers outgoing_;  // sends, and receives of results
};

}  // namespace

std::unique_ptr<LinkOperation> MakeReduction(const CollectiveOp& call,
                                             LinkContext wire) {
  const size_t given = call.bytes() * (wire.size() - 1);
  if (call.bytes() <= kInlineBytes && given <= 2 * kInlineBytes) {
    return std::make_unique<SmallReduction>(call, wire);
  }
  return std::make_unique<LargeReduction>(call, wire);
}

}  // namespace lockstep::transport
