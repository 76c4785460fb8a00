// Checks each rank's tasks and the buffers of its messages.

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "plan/shard.h"
#include "plan/verify/pipelines.h"
#include "plan/verify/structure.h"

namespace lockstep::plan {
namespace {

constexpr int kNone = -1;

bool IsWork(Work work) { return Name(work) != "?"; }

// One rank's tasks.
class TaskCheck {
 public:
  TaskCheck(const Plan& plan, const Pipelines& pipelines, int rank,
            Diagnostics& diagnostics)
      : plan_(plan),
        pipelines_(pipelines),
        lanes_(plan.ranks[rank].lanes),
        tasks_(plan.ranks[rank].tasks),
        rank_(rank),
        diagnostics_(diagnostics) {
    for (const Lane& lane : lanes_) {
      needed_at_.emplace_back(lane.transfers.size(), kNone);
    }
  }

  void Run() {
    for (size_t i = 0; i < tasks_.size(); ++i) {
      if (!CheckTask(static_cast<int>(i))) return;
    }
    if (!HasEveryPass() || !TransfersNameTasks()) return;
    CountMessages();
    for (const TransferRef& ref : plan_.ranks[rank_].launch_order) {
      CheckBuffer(ref);
      CheckReduction(ref);
    }
  }

 private:
  struct Key {
    int stage;
    int micro_batch;
    auto operator<=>(const Key&) const = default;
  };
  // The positions of a stage's passes of one micro-batch in the order of tasks.
  struct TaskPositions {
    int forward = kNone;
    int gradient = kNone;  // of the input
    int end = kNone;
  };

  template <typename... Args>
  bool Find(Rule rule, const absl::FormatSpec<Args...>& format,
            const Args&... args) {
    diagnostics_.Add(rule, {rank_}, absl::StrFormat(format, args...));
    return false;
  }

  const Transfer& At(const TransferRef& ref) const {
    return lanes_[ref.lane].transfers[ref.index];
  }

  bool Exists(const TransferRef& ref) const {
    return ref.lane >= 0 && static_cast<size_t>(ref.lane) < lanes_.size() &&
           ref.index >= 0 &&
           static_cast<size_t>(ref.index) < lanes_[ref.lane].transfers.size();
  }

  // --- Tasks ---

  bool CheckTask(int index) {
    const Task& task = tasks_[index];
    if (!IsWork(task.work) || task.stage < 0 || task.micro_batch < 0) {
      return Find(Rule::kTasks, "task %d is of no kind, stage or micro-batch",
                  index);
    }
    if (!IsOfThisRank(index, task)) return false;
    for (const TransferRef& ref : task.after) {
      if (!Exists(ref)) {
        return Find(Rule::kTasks,
                    "task %d (%s) waits for transfer %d of lane %d, which does "
                    "not exist",
                    index, Describe(task), ref.index, ref.lane);
      }
      if (lanes_[ref.lane].kind == LaneKind::kVerdict) {
        return Find(Rule::kTasks,
                    "task %d (%s) waits for the verdict, which waits for all "
                    "else",
                    index, Describe(task));
      }
      int& needed_at = needed_at_[ref.lane][ref.index];
      if (needed_at == kNone) needed_at = index;
    }
    return CheckTurn(index, task);
  }

  bool IsOfThisRank(int index, const Task& task) {
    if (!pipelines_.exist()) {
      return Find(Rule::kTasks, "task %d (%s): the plan has no pipeline", index,
                  Describe(task));
    }
    if (task.stage >= pipelines_.stages() ||
        task.micro_batch >= pipelines_.micro_batches()) {
      return Find(Rule::kTasks,
                  "task %d (%s): the pipeline has %d stages and %d "
                  "micro-batches",
                  index, Describe(task), pipelines_.stages(),
                  pipelines_.micro_batches());
    }
    const int holder = pipelines_.HolderOf(task.stage, rank_);
    return holder == rank_ ||
           Find(Rule::kTasks, "task %d (%s): rank %d has the stage", index,
                Describe(task), holder);
  }

  // Whether this rank produces the task's input, but has not yet.
  bool ComesBeforeItsSource(const Task& task) const {
    const bool forward = task.work == Work::kForward;
    if (!forward && !GivesInputGradient(task.work)) return false;
    const int source = task.stage + (forward ? -1 : 1);
    if (source < 0 || source >= pipelines_.stages()) return false;
    if (pipelines_.HolderOf(source, rank_) != rank_) return false;
    const auto found = passes_.find({source, task.micro_batch});
    if (found == passes_.end()) return true;
    return (forward ? found->second.forward : found->second.gradient) == kNone;
  }

  bool HasEveryPass() {
    if (!pipelines_.exist()) return true;
    for (int stage = 0; stage < pipelines_.stages(); ++stage) {
      if (pipelines_.HolderOf(stage, rank_) != rank_) continue;
      for (int m = 0; m < pipelines_.micro_batches(); ++m) {
        const TaskPositions passes = passes_[{stage, m}];
        if (passes.end != kNone) continue;
        return Find(Rule::kTasks, "has no %s of stage %d, micro-batch %d",
                    passes.forward == kNone    ? "forward"
                    : passes.gradient == kNone ? "backward"
                                               : "weight gradient",
                    stage, m);
      }
    }
    return true;
  }

  // The order is forward, gradient of the input, gradient of the weights.
  bool CheckTurn(int index, const Task& task) {
    TaskPositions& passes = passes_[{task.stage, task.micro_batch}];
    const bool forward = task.work == Work::kForward;
    const bool gradient = GivesInputGradient(task.work);
    const bool late = (forward && passes.forward != kNone) ||
                      (gradient && passes.gradient != kNone) ||
                      passes.end != kNone;
    if (late) {
      return Find(Rule::kTasks, "task %d (%s) comes a second time, or late",
                  index, Describe(task));
    }
    const bool early = (gradient && passes.forward == kNone) ||
                       (!forward && !gradient && passes.gradient == kNone) ||
                       ComesBeforeItsSource(task);
    if (early) {
      return Find(Rule::kTasks,
                  "task %d (%s) comes before what it is computed from", index,
                  Describe(task));
    }
    if (forward) passes.forward = index;
    if (gradient) passes.gradient = index;
    if (EndsMicroBatch(task.work)) passes.end = index;
    last_of_stage_[task.stage] = index;
    return true;
  }

  bool TransfersNameTasks() {
    for (const Lane& lane : lanes_) {
      for (size_t i = 0; i < lane.transfers.size(); ++i) {
        const Transfer& transfer = lane.transfers[i];
        if (transfer.after_task < kNone ||
            transfer.after_task >= static_cast<int>(tasks_.size())) {
          return Find(Rule::kTasks,
                      "transfer %d of lane %s comes after task %d of %d", i,
                      lane.name, transfer.after_task, tasks_.size());
        }
      }
    }
    return true;
  }

  // --- Gradients ---

  // Gradients are complete after their stage's last task; those without a stage
  // after the rank's.
  void CheckReduction(const TransferRef& ref) {
    const Transfer& transfer = At(ref);
    if (transfer.bucket < 0 || tasks_.empty()) return;
    if (GathersParameters(plan_, transfer)) return;
    for (const Slot& slot : plan_.buckets[transfer.bucket].slots) {
      const Parameter& parameter = plan_.parameters[slot.parameter];
      const int last = LastTaskOf(parameter.stage);
      if (last != kNone && transfer.after_task >= last) continue;
      Find(Rule::kTasks, "the all-reduce of bucket %d comes after %s, but %s",
           transfer.bucket,
           transfer.after_task == kNone
               ? "no task"
               : absl::StrFormat("task %d", transfer.after_task),
           last == kNone
               ? absl::StrFormat("the rank has no stage %d, of which is %s",
                                 parameter.stage, parameter.name)
               : absl::StrFormat("the gradient of %s is complete with task %d",
                                 parameter.name, last));
      return;
    }
  }

  int LastTaskOf(int stage) const {
    if (stage == kNone) return static_cast<int>(tasks_.size()) - 1;
    const auto last = last_of_stage_.find(stage);
    return last == last_of_stage_.end() ? kNone : last->second;
  }

  // --- Buffers ---

  bool IsMessage(const TransferRef& ref) const {
    return lanes_[ref.lane].kind == LaneKind::kPipeline &&
           IsPointToPoint(At(ref).kind);
  }

  void CountMessages() {
    for (const TransferRef& ref : plan_.ranks[rank_].launch_order) {
      messages_ += IsMessage(ref) ? 1 : 0;
    }
  }

  void CheckBuffer(const TransferRef& ref) {
    const Transfer& transfer = At(ref);
    if (IsMessage(ref) &&
        (transfer.buffer == kNone || transfer.buffer >= messages_)) {
      Find(Rule::kBuffers,
           "transfer %d of lane %s has %s, of the rank's %d messages",
           ref.index, lanes_[ref.lane].name,
           transfer.buffer == kNone
               ? "no buffer"
               : absl::StrFormat("buffer %d", transfer.buffer),
           messages_);
      return;
    }
    if (transfer.buffer == kNone) return;
    const bool sends = transfer.kind == TransferKind::kSend;
    if (transfer.buffer < 0 || !IsPointToPoint(transfer.kind) ||
        (sends && transfer.after_task == kNone) ||
        (!sends && ReleaseOf(ref) == kNone)) {
      Find(Rule::kBuffers,
           "transfer %d of lane %s has buffer %d, which no task fills or "
           "empties",
           ref.index, lanes_[ref.lane].name, transfer.buffer);
      return;
    }
    const auto [last, is_first] = user_of_.try_emplace(transfer.buffer, ref);
    if (!is_first && !CanFollow(last->second, ref)) {
      Find(Rule::kBuffers,
           "transfer %d of lane %s uses buffer %d, which transfer %d of lane "
           "%s may still hold",
           ref.index, lanes_[ref.lane].name, transfer.buffer,
           last->second.index, lanes_[last->second.lane].name);
    }
    last->second = ref;
  }

  // The last task that uses the received data.
  int ReleaseOf(const TransferRef& ref) const {
    const int needed_at = needed_at_[ref.lane][ref.index];
    if (needed_at == kNone) return kNone;
    const Task& task = tasks_[needed_at];
    return passes_.at({task.stage, task.micro_batch}).end;
  }

  bool CanFollow(const TransferRef& earlier, const TransferRef& later) const {
    const Transfer& before = At(earlier);
    const Transfer& after = At(later);
    if (before.kind != after.kind || before.shape != after.shape ||
        before.dtype != after.dtype) {
      return false;
    }
    if (before.kind == TransferKind::kRecv) {
      return after.after_task >= ReleaseOf(earlier);
    }
    const int sent_by = needed_at_[earlier.lane][earlier.index];
    return sent_by != kNone && sent_by <= after.after_task;
  }

  const Plan& plan_;
  const Pipelines& pipelines_;
  const std::vector<Lane>& lanes_;
  const std::vector<Task>& tasks_;
  const int rank_;
  Diagnostics& diagnostics_;
  std::map<Key, TaskPositions> passes_;
  std::map<int, int> last_of_stage_;
  // By transfer: the first task that waits for it.
  std::vector<std::vector<int>> needed_at_;
  std::map<int, TransferRef> user_of_;  // the last user of each buffer
  int messages_ = 0;
};

void CheckSpec(const Plan& plan, Diagnostics& diagnostics) {
  const absl::Status valid = Validate(plan.pipeline, plan.mesh);
  if (!valid.ok()) {
    diagnostics.Add(Rule::kWorld, {}, std::string(valid.message()));
  }
}

}  // namespace

void CheckTasks(const Plan& plan, Diagnostics& diagnostics) {
  CheckSpec(plan, diagnostics);
  if (!diagnostics.empty()) return;
  const Pipelines pipelines(plan);
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    if (diagnostics.full()) return;
    TaskCheck(plan, pipelines, static_cast<int>(rank), diagnostics).Run();
  }
}

}  // namespace lockstep::plan
