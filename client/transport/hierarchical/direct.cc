// With each peer the direct way: shared memory on this host, the link beyond.
//
//   Send, Recv             one or the other
//   AllToAll, AllToAllV    an AllToAllV among this host's ranks, and beside it
//                          an exchange with all others

#include <optional>
#include <utility>

#include "client/transport/collectives/blocks.h"
#include "client/transport/exchange.h"
#include "client/transport/hierarchical/tasks.h"
#include "client/transport/shm/task.h"

namespace lockstep::transport {
namespace {

class Direct final : public Task {
 public:
  Direct(const Call& call, const Crew& crew)
      : call_(call), crew_(crew), beyond_(std::in_place, call, crew.wire()) {
    for (int rank = 0; rank < crew.placement.ranks(); ++rank) {
      if (!IsHere(rank)) beyond_->AddBlocks(rank);
    }
    if (!call.is_point_to_point()) {
      here_call_ = BlocksOfThisHost();
    } else if (IsHere(call.peer)) {
      here_call_ = call;
      here_call_.peer = crew.placement.index(call.peer);
    } else {
      return;
    }
    here_ = MakeTask(here_call_, crew.board);
  }

  absl::StatusOr<Progress> Advance() override {
    waits_ = 0;
    bool moved = false;
    if (!started_) {
      absl::Status started = beyond_->Start();
      if (!started.ok()) return crew_.OfLink(started);
      started_ = true;
    }
    if (here_ != nullptr) {
      absl::StatusOr<Progress> progress = here_->Advance();
      if (!progress.ok()) return progress;
      moved = *progress != Progress::kNothing;
      if (!moved) waits_ = here_->waits();
      if (*progress == Progress::kDone) here_ = nullptr;
    }
    if (beyond_ && beyond_->Moved()) {
      absl::Status finished = beyond_->Finish();
      if (!finished.ok()) return crew_.OfLink(finished);
      beyond_.reset();
      moved = true;
    }
    if (here_ == nullptr && !beyond_) return Progress::kDone;
    return moved ? Progress::kMoved : Progress::kNothing;
  }

 private:
  bool IsHere(int rank) const {
    return crew_.placement.host(rank) == crew_.host();
  }

  // An AllToAllV with the other ranks of this host.
  Call BlocksOfThisHost() const {
    Call call{.kind = CallKind::kAllToAllV,
              .in = call_.in,
              .out = call_.out,
              .dtype = call_.dtype,
              .tag = call_.tag};
    const size_t element = SizeOf(call.dtype);
    for (int rank : crew_.placement.members(crew_.host())) {
      const Block given = *GivenBlock(call_, crew_.rank, rank);
      const Block taken = *TakenBlock(call_, crew_.rank, rank);
      call.in_offsets.push_back(given.offset / element);
      call.in_counts.push_back(given.bytes / element);
      call.out_offsets.push_back(taken.offset / element);
      call.out_counts.push_back(taken.bytes / element);
    }
    return call;
  }

  const Call& call_;
  const Crew& crew_;
  Call here_call_;
  std::unique_ptr<Task> here_;      // null: none, or done
  std::optional<Exchange> beyond_;  // none: it is done
  bool started_ = false;
};

}  // namespace

std::unique_ptr<Task> MakeDirect(const Call& call, const Crew& crew) {
  return std::make_unique<Direct>(call, crew);
}

}  // namespace lockstep::transport
