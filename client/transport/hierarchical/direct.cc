// With each peer the direct way: shared memory on this host, the link beyond.
//
//   Send, Recv             one or the other
//   AllToAll, AllToAllV    an AllToAllV among this host's ranks, and beside it
//                          an exchange with all others

#include <optional>
#include <utility>
#include <vector>

#include "client/transport/exchange.h"
#include "client/transport/hierarchical/tasks.h"
#include "client/transport/shm/collective.h"

namespace lockstep::transport {
namespace {

class Direct final : public Task {
 public:
  Direct(const Call& call, const Crew& crew) : call_(call), crew_(crew) {
    if (call.is_point_to_point()) {
      SplitMessage();
    } else {
      SplitBlocks();
    }
  }

  absl::StatusOr<Progress> Advance() override {
    waits_ = 0;
    bool moved = false;
    if (!started_ && beyond_) {
      absl::Status started = beyond_->Start();
      if (!started.ok()) return crew_.OfLink(started);
    }
    started_ = true;
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

  void SplitMessage() {
    if (IsHere(call_.peer)) {
      here_call_ = call_;
      here_call_.peer = crew_.placement.index(call_.peer);
      here_ = MakeTask(here_call_, crew_.board);
      return;
    }
    beyond_.emplace(call_, crew_.wire());
    if (call_.kind == CallKind::kSend) {
      beyond_->Give(call_.peer, call_.in, call_.bytes());
    } else {
      beyond_->Take(call_.peer, call_.out, call_.bytes());
    }
  }

  void SplitBlocks() {
    const bool uneven = call_.kind == CallKind::kAllToAllV;
    const size_t element = SizeOf(call_.dtype);
    here_call_ = {.kind = CallKind::kAllToAllV,
                  .in = call_.in,
                  .out = call_.out,
                  .dtype = call_.dtype,
                  .tag = call_.tag};
    beyond_.emplace(call_, crew_.wire());
    for (int rank = 0; rank < crew_.placement.ranks(); ++rank) {
      const size_t even_at = rank * call_.count;
      const size_t in_at = uneven ? call_.in_offsets[rank] : even_at;
      const size_t in_count = uneven ? call_.in_counts[rank] : call_.count;
      const size_t out_at = uneven ? call_.out_offsets[rank] : even_at;
      const size_t out_count = uneven ? call_.out_counts[rank] : call_.count;
      if (IsHere(rank)) {
        here_call_.in_offsets.push_back(in_at);
        here_call_.in_counts.push_back(in_count);
        here_call_.out_offsets.push_back(out_at);
        here_call_.out_counts.push_back(out_count);
      } else {
        beyond_->Give(rank, Plus(call_.in, in_at * element),
                      in_count * element);
        beyond_->Take(rank, Plus(call_.out, out_at * element),
                      out_count * element);
      }
    }
    here_ = MakeTask(here_call_, crew_.board);
  }

  const Call& call_;
  const Crew& crew_;
  Call here_call_;
  std::unique_ptr<Task> here_;      // null: none, or done
  std::optional<Exchange> beyond_;  // none: there is none, or it is done
  bool started_ = false;
};

}  // namespace

std::unique_ptr<Task> MakeDirect(const Call& call, const Crew& crew) {
  return std::make_unique<Direct>(call, crew);
}

}  // namespace lockstep::transport
