#include "client/transport/shm/shm_executor.h"

#include <utility>

#include "client/transport/blame.h"
#include "client/transport/shm/task.h"
#include "client/transport/shm/watch.h"

namespace lockstep::transport {
namespace {

// How far they got together: kDone when all are. Who is done is let go.
absl::StatusOr<Progress> AdvanceAll(Tasks& tasks, RankMask* waits) {
  bool moved = false;
  bool done = true;
  for (std::unique_ptr<Task>& task : tasks) {
    if (task == nullptr) continue;
    absl::StatusOr<Progress> progress = task->Advance();
    if (!progress.ok()) return progress;
    if (*progress == Progress::kDone) {
      task = nullptr;
      moved = true;
      continue;
    }
    done = false;
    moved |= *progress == Progress::kMoved;
    if (*progress == Progress::kNothing) *waits |= task->waits();
  }
  if (done) return Progress::kDone;
  return moved ? Progress::kMoved : Progress::kNothing;
}

absl::Status RunToTheEnd(Tasks& tasks, Board& board) {
  Watch watch(board);
  for (;;) {
    RankMask waits = 0;
    absl::StatusOr<Progress> progress = AdvanceAll(tasks, &waits);
    if (!progress.ok()) return std::move(progress).status();
    if (*progress == Progress::kDone) return absl::OkStatus();
    if (*progress == Progress::kNothing) {
      if (absl::Status turn = watch.Turn(waits); !turn.ok()) return turn;
      continue;
    }
    watch.Moved();
    if (board.left()) return absl::CancelledError("the group was left");
  }
}

class ShmExecutor final : public Executor {
 public:
  explicit ShmExecutor(std::unique_ptr<Board> board)
      : board_(std::move(board)) {}

  int rank() const override { return board_->rank(); }
  int size() const override { return board_->size(); }
  std::string_view transport() const override { return "shm"; }
  bool checks() const override { return true; }

  bool sums_in_pairs() const override { return true; }

  absl::Status Execute(std::span<const Call> calls) override {
    Tasks tasks;
    tasks.reserve(calls.size());
    for (const Call& call : calls) tasks.push_back(MakeTask(call, *board_));
    return RunTasks(std::move(tasks), *board_);
  }

  void Cut(const absl::Status& why) override {
    board_->Leave(BlamedRank(why).value_or(board_->rank()));
  }

 private:
  const std::unique_ptr<Board> board_;
};

}  // namespace

std::unique_ptr<Task> MakeTask(const Call& call, Board& board) {
  if (IsSmallFold(call, board.size())) return MakeSmallFold(call, board);
  switch (call.kind) {
    case CallKind::kAllReduce:
    case CallKind::kReduceScatter: return MakeLocalReduction(call, board);
    case CallKind::kSend:
    case CallKind::kRecv: return MakeMessage(call, board);
    default: return MakeExchange(call, board);
  }
}

absl::Status RunTasks(Tasks&& tasks, Board& board) {
  absl::Status ended = RunToTheEnd(tasks, board);
  if (!ended.ok()) board.Failed();
  return ended;
}

std::unique_ptr<Executor> MakeShmExecutor(std::unique_ptr<Board> board) {
  return std::make_unique<ShmExecutor>(std::move(board));
}

}  // namespace lockstep::transport
