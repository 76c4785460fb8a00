#include "client/transport/shm/shm_executor.h"

#include <utility>

#include "client/transport/failed_peer.h"
#include "client/transport/shm/task.h"
#include "client/transport/shm/waiter.h"

namespace lockstep::transport {
namespace {

// Advances each task once, and frees those that are done. kDone when all are.
absl::StatusOr<AdvanceResult> AdvanceAll(CollectiveTasks& tasks,
                                         RankMask* waits) {
  bool moved = false;
  bool done = true;
  for (std::unique_ptr<CollectiveTask>& task : tasks) {
    if (task == nullptr) continue;
    absl::StatusOr<AdvanceResult> progress = task->Advance();
    if (!progress.ok()) return progress;
    if (*progress == AdvanceResult::kDone) {
      task = nullptr;
      moved = true;
      continue;
    }
    done = false;
    moved |= *progress == AdvanceResult::kMoved;
    if (*progress == AdvanceResult::kNothing) *waits |= task->waits();
  }
  if (done) return AdvanceResult::kDone;
  return moved ? AdvanceResult::kMoved : AdvanceResult::kNothing;
}

absl::Status RunToTheEnd(CollectiveTasks& tasks, ShmGroup& shm_group) {
  Waiter waiter(shm_group);
  for (;;) {
    RankMask waits = 0;
    absl::StatusOr<AdvanceResult> progress = AdvanceAll(tasks, &waits);
    if (!progress.ok()) return std::move(progress).status();
    if (*progress == AdvanceResult::kDone) return absl::OkStatus();
    if (*progress == AdvanceResult::kNothing) {
      if (absl::Status turn = waiter.WaitOnce(waits); !turn.ok()) return turn;
      continue;
    }
    waiter.Moved();
    if (shm_group.left()) return absl::CancelledError("the group was left");
  }
}

class ShmExecutor final : public CollectiveExecutor {
 public:
  explicit ShmExecutor(std::unique_ptr<ShmGroup> shm_group)
      : shm_group_(std::move(shm_group)) {}

  int rank() const override { return shm_group_->rank(); }
  int size() const override { return shm_group_->size(); }
  std::string_view transport() const override { return "shm"; }
  bool checks() const override { return true; }
  bool moves_boxes() const override { return true; }
  bool sums_in_pairs() const override { return true; }

  absl::Status Execute(std::span<const CollectiveOp> calls) override {
    CollectiveTasks tasks;
    tasks.reserve(calls.size());
    for (const CollectiveOp& call : calls)
      tasks.push_back(MakeTask(call, *shm_group_));
    return RunTasks(std::move(tasks), *shm_group_);
  }

  void Shutdown(const absl::Status& why) override {
    shm_group_->Leave(FailedPeer(why).value_or(shm_group_->rank()));
  }

 private:
  const std::unique_ptr<ShmGroup> shm_group_;
};

}  // namespace

std::unique_ptr<CollectiveTask> MakeTask(const CollectiveOp& call,
                                         ShmGroup& shm_group) {
  if (IsSmallReduce(call, shm_group.size()))
    return MakeSmallReduce(call, shm_group);
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduceScatter:
      return MakeLocalReduction(call, shm_group);
    case CollectiveKind::kSend:
    case CollectiveKind::kRecv: return MakeMessage(call, shm_group);
    default: return MakeExchange(call, shm_group);
  }
}

absl::Status RunTasks(CollectiveTasks&& tasks, ShmGroup& shm_group) {
  absl::Status ended = RunToTheEnd(tasks, shm_group);
  if (!ended.ok()) shm_group.Failed();
  return ended;
}

std::unique_ptr<CollectiveExecutor> MakeShmExecutor(
    std::unique_ptr<ShmGroup> shm_group) {
  return std::make_unique<ShmExecutor>(std::move(shm_group));
}

}  // namespace lockstep::transport
