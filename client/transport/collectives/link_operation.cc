#include "client/transport/collectives/link_operation.h"

#include <optional>

#include "client/transport/collectives/link_broadcast.h"
#include "client/transport/collectives/link_exchange.h"
#include "client/transport/collectives/link_reduction.h"

namespace lockstep::transport {
namespace {

// A dissemination barrier: in round k a rank notifies the rank 2^k ahead, and
// waits for the notice of the rank 2^k behind. With 4 ranks it is as fast as a
// message from each to each, with 8 ranks twice as fast.
class LinkBarrier final : public LinkOperation {
 public:
  LinkBarrier(const CollectiveOp& call, LinkContext wire)
      : call_(call), wire_(wire) {}

  absl::Status Start() override { return NextRound(); }

  absl::Status Finish() override {
    absl::Status met;
    while (met.ok() && round_) {
      met = round_->Finish();
      if (met.ok()) met = NextRound();
    }
    return met;
  }

 private:
  absl::Status NextRound() {
    round_.reset();
    if (distance_ >= wire_.size()) return absl::OkStatus();
    ++call_.tag;
    round_.emplace(call_, wire_);
    round_->TakeNotice((wire_.rank() - distance_ + wire_.size()) %
                       wire_.size());
    round_->GiveNotice((wire_.rank() + distance_) % wire_.size());
    distance_ *= 2;
    return round_->Start();
  }

  CollectiveOp call_;  // with the tag of the round
  const LinkContext wire_;
  int distance_ = 1;
  std::optional<LinkExchange> round_;
};

// Exchanges a block with each rank, or with one peer.
std::unique_ptr<LinkOperation> ExchangeBlocks(const CollectiveOp& call,
                                              LinkContext wire) {
  auto exchange = std::make_unique<LinkExchange>(call, wire);
  for (int rank = 0; rank < wire.size(); ++rank) exchange->AddBlocks(rank);
  return exchange;
}

}  // namespace

std::unique_ptr<LinkOperation> MakeOperation(const CollectiveOp& call,
                                             LinkContext wire) {
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduceScatter: return MakeReduction(call, wire);
    case CollectiveKind::kBroadcast:
      if (IsSpread(call, wire.size())) return MakeSpread(call, wire);
      break;
    case CollectiveKind::kBarrier:
      return std::make_unique<LinkBarrier>(call, wire);
    default: break;
  }
  return ExchangeBlocks(call, wire);
}

}  // namespace lockstep::transport
