#include "client/transport/operation.h"

#include <cstddef>

#include "client/transport/announcement.h"
#include "client/transport/broadcast.h"
#include "client/transport/exchange.h"
#include "client/transport/reduction.h"

namespace lockstep::transport {
namespace {

// Dissemination: in round k a rank tells the one 2^k ahead, and hears from the
// one 2^k behind, that all up to there have come.
class Barrier final : public Operation {
 public:
  Barrier(const Call& call, Wire wire)
      : wire_(wire), announcements_(call, 0, wire.link) {}

  absl::Status Start() override { return PostRound(); }

  absl::Status Finish() override {
    absl::Status agreed = announcements_.Agree();
    while (agreed.ok() && distance_ < wire_.size()) {
      agreed.Update(PostRound());
      agreed.Update(announcements_.Agree());
    }
    return agreed;
  }

 private:
  absl::Status PostRound() {
    if (distance_ >= wire_.size()) return absl::OkStatus();
    const int ahead = (wire_.rank() + distance_) % wire_.size();
    const int behind = (wire_.rank() - distance_ + wire_.size()) % wire_.size();
    absl::Status posted = announcements_.Expect(behind, round_);
    posted.Update(announcements_.Give(ahead, round_));
    distance_ *= 2;
    ++round_;
    return posted;
  }

  const Wire wire_;
  int distance_ = 1;
  uint64_t round_ = 0;
  Announcements announcements_;
};

const std::byte* Plus(const void* data, size_t bytes) {
  return static_cast<const std::byte*>(data) + bytes;
}
std::byte* Plus(void* data, size_t bytes) {
  return static_cast<std::byte*>(data) + bytes;
}

// AllGather, AllToAll and AllToAllV: a block to and from each rank.
std::unique_ptr<Operation> ExchangeBlocks(const Call& call, Wire wire) {
  const size_t element = SizeOf(call.dtype);
  const bool uneven = call.kind == CallKind::kAllToAllV;
  const bool gather = call.kind == CallKind::kAllGather;
  auto exchange = std::make_unique<Exchange>(call, wire);
  for (int r = 0; r < wire.size(); ++r) {
    const size_t in_at =
        uneven ? call.in_offsets[r] : (gather ? 0 : r * call.count);
    const size_t out_at = uneven ? call.out_offsets[r] : r * call.count;
    const size_t in_bytes = (uneven ? call.in_counts[r] : call.count) * element;
    const size_t out_bytes =
        (uneven ? call.out_counts[r] : call.count) * element;
    const std::byte* in = Plus(call.in, in_at * element);
    std::byte* out = Plus(call.out, out_at * element);
    if (r == wire.rank()) {
      exchange->Keep(in, out, out_bytes);
    } else {
      exchange->Give(r, in, in_bytes);
      exchange->Take(r, out, out_bytes);
    }
  }
  return exchange;
}

std::unique_ptr<Operation> ExchangeWithPeer(const Call& call, Wire wire) {
  auto exchange = std::make_unique<Exchange>(call, wire);
  if (call.kind == CallKind::kSend) {
    exchange->Give(call.peer, call.in, call.bytes());
  } else {
    exchange->Take(call.peer, call.out, call.bytes());
  }
  return exchange;
}

}  // namespace

std::unique_ptr<Operation> MakeOperation(const Call& call, Wire wire) {
  switch (call.kind) {
    case CallKind::kAllReduce:
    case CallKind::kReduceScatter: return MakeReduction(call, wire);
    case CallKind::kBroadcast: return MakeBroadcast(call, wire);
    case CallKind::kAllGather:
    case CallKind::kAllToAll:
    case CallKind::kAllToAllV: return ExchangeBlocks(call, wire);
    case CallKind::kSend:
    case CallKind::kRecv: return ExchangeWithPeer(call, wire);
    case CallKind::kBarrier: break;
  }
  return std::make_unique<Barrier>(call, wire);
}

}  // namespace lockstep::transport
