// Exchanges directly with each peer: by shared memory on this host, by the link
// with other hosts.
//
//   Send, Recv             one or the other
//   AllToAll, AllToAllV    an AllToAllV among this host's ranks, and in
//                          parallel an exchange with all others

#include <optional>
#include <utility>

#include "client/transport/collectives/link_exchange.h"
#include "client/transport/common/blocks.h"
#include "client/transport/hierarchical/tasks.h"
#include "client/transport/shm/task.h"

namespace lockstep::transport {
namespace {

class DirectExchange final : public CollectiveTask {
 public:
  DirectExchange(const CollectiveOp& call, const HierarchicalContext& context)
      : call_(call),
        context_(context),
        beyond_(std::in_place, call, context.wire()) {
    for (int rank = 0; rank < context.placement.ranks(); ++rank) {
      if (!IsHere(rank)) beyond_->AddBlocks(rank);
    }
    if (!call.is_point_to_point()) {
      here_call_ = BlocksOfThisHost();
    } else if (IsHere(call.peer)) {
      here_call_ = call;
      here_call_.peer = context.placement.index(call.peer);
    } else {
      return;
    }
    here_ = MakeTask(here_call_, context.shm_group);
  }

  absl::StatusOr<AdvanceResult> Advance() override {
    waits_ = 0;
    bool moved = false;
    if (!started_) {
      absl::Status started = beyond_->Start();
      if (!started.ok()) return context_.OfLink(started);
      started_ = true;
    }
    if (here_ != nullptr) {
      absl::StatusOr<AdvanceResult> progress = here_->Advance();
      if (!progress.ok()) return progress;
      moved = *progress != AdvanceResult::kNothing;
      if (!moved) waits_ = here_->waits();
      if (*progress == AdvanceResult::kDone) here_ = nullptr;
    }
    if (beyond_ && beyond_->Moved()) {
      absl::Status finished = beyond_->Finish();
      if (!finished.ok()) return context_.OfLink(finished);
      beyond_.reset();
      moved = true;
    }
    if (here_ == nullptr && !beyond_) return AdvanceResult::kDone;
    return moved ? AdvanceResult::kMoved : AdvanceResult::kNothing;
  }

 private:
  bool IsHere(int rank) const {
    return context_.placement.host(rank) == context_.host();
  }

  // An AllToAllV among the ranks of this host.
  CollectiveOp BlocksOfThisHost() const {
    CollectiveOp call{.kind = CollectiveKind::kAllToAllV,
                      .in = call_.in,
                      .out = call_.out,
                      .dtype = call_.dtype,
                      .tag = call_.tag};
    const size_t element = SizeOf(call.dtype);
    for (int rank : context_.placement.members(context_.host())) {
      const ByteRange given = *GivenBlock(call_, context_.rank, rank);
      const ByteRange taken = *TakenBlock(call_, context_.rank, rank);
      call.in_offsets.push_back(given.offset / element);
      call.in_counts.push_back(given.bytes / element);
      call.out_offsets.push_back(taken.offset / element);
      call.out_counts.push_back(taken.bytes / element);
    }
    return call;
  }

  const CollectiveOp& call_;
  const HierarchicalContext& context_;
  CollectiveOp here_call_;
  std::unique_ptr<CollectiveTask> here_;  // null: none, or done
  std::optional<LinkExchange> beyond_;    // nullopt: done
  bool started_ = false;
};

}  // namespace

std::unique_ptr<CollectiveTask> MakeDirectExchange(
    const CollectiveOp& call, const HierarchicalContext& context) {
  return std::make_unique<DirectExchange>(call, context);
}

}  // namespace lockstep::transport
