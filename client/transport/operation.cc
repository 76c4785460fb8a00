#include "client/transport/operation.h"

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

// A block to and from each rank, or one peer.
std::unique_ptr<Operation> ExchangeBlocks(const Call& call, Wire wire) {
  auto exchange = std::make_unique<Exchange>(call, wire);
  for (int rank = 0; rank < wire.size(); ++rank) exchange->AddBlocks(rank);
  return exchange;
}

}  // namespace

std::unique_ptr<Operation> MakeOperation(const Call& call, Wire wire) {
  switch (call.kind) {
    case CallKind::kAllReduce:
    case CallKind::kReduceScatter: return MakeReduction(call, wire);
    case CallKind::kBarrier: return std::make_unique<Barrier>(call, wire);
    case CallKind::kBroadcast:
      if (IsSpread(call, wire.size())) return MakeSpread(call, wire);
      break;
    default: break;
  }
  return ExchangeBlocks(call, wire);
}

}  // namespace lockstep::transport
