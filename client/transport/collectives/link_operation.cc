#include "client/transport/collectives/link_operation.h"

#include <optional>

#include "client/transport/collectives/link_broadcast.h"
#include "client/transport/collectives/link_exchange.h"
#include "client/transport/collectives/link_reduction.h"

namespace lockstep::transport {
namespace {

// Dissemination: in round k a rank tells the one 2^k ahead, and hears from the
// one 2^k behind, that all up to there have come. Of 4 ranks it is as fast as a
// message from each to each, of 8 twice.
class Barrier final : public Operation {
 public:
  Barrier(const CollectiveOp& call, Wire wire) : call_(call), wire_(wire) {}

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

  CollectiveOp call_;  // of the round
  const Wire wire_;
  int distance_ = 1;
  std::optional<Exchange> round_;
};

// A block to and from each rank, or one peer.
std::unique_ptr<Operation> ExchangeBlocks(const CollectiveOp& call, Wire wire) {
  auto exchange = std::make_unique<Exchange>(call, wire);
  for (int rank = 0; rank < wire.size(); ++rank) exchange->AddBlocks(rank);
  return exchange;
}

}  // namespace

std::unique_ptr<Operation> MakeOperation(const CollectiveOp& call, Wire wire) {
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduceScatter: return MakeReduction(call, wire);
    case CollectiveKind::kBroadcast:
      if (IsSpread(call, wire.size())) return MakeSpread(call, wire);
      break;
    case CollectiveKind::kBarrier: return std::make_unique<Barrier>(call, wire);
    default: break;
  }
  return ExchangeBlocks(call, wire);
}

}  // namespace lockstep::transport
