// A plan as its judge sees it: what each rank does once, in which queues, and
// what everything needs.
//
//   rank 0  lane "to rank 1"   [send F0][send F1]...    a queue of units, each
//           tasks              [F0][F1][B0]...          of what begins together

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_WIRING_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_WIRING_H_

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "plan/ir.h"
#include "tests/plan/mutation/judge.h"

namespace lockstep::plan::judging {

inline constexpr int kNone = -1;

// Something that a rank does once: a task, or its side of a transfer.
struct Doing {
  int rank = 0;
  const Task* task = nullptr;
  const Transfer* transfer = nullptr;
  std::vector<int> needs;        // doings that must be done
  std::vector<int> arrives;      // task: the receives among them
  std::vector<int> fills;        // task: the sends of its result
  std::vector<int> reads_again;  // task that ends a micro-batch: receives
  int made_by = kNone;           // send: the task
  int needed_by = kNone;         // receive: a task
  int door = kNone;              // where it meets others
};

struct Fault {
  Fate fate;
  std::string why;
};

// The plan as lists of doings.
class Wiring {
 public:
  Wiring(const Plan& plan, bool one_queue) : plan_(plan) {
    for (size_t rank = 0; rank < plan.ranks.size() && !fault_; ++rank) {
      Number(static_cast<int>(rank));
    }
    for (size_t rank = 0; rank < plan.ranks.size() && !fault_; ++rank) {
      Connect(static_cast<int>(rank));
      Queue(static_cast<int>(rank), one_queue);
    }
    if (!fault_) FindTasks();
    for (size_t i = 0; i < doings_.size() && !fault_; ++i) {
      if (doings_[i].task != nullptr) Expect(static_cast<int>(i));
    }
  }

  const std::optional<Fault>& fault() const { return fault_; }
  const std::vector<Doing>& doings() const { return doings_; }
  // Each a list of units, which begin and end together.
  const std::vector<std::vector<std::vector<int>>>& queues() const {
    return queues_;
  }
  size_t doors() const { return doors_.size(); }
  const Communicator& Group(const Transfer& t) const {
    return plan_.communicators[t.communicator];
  }
  // The task whose result a task needs from another rank, or kNone.
  int SourceOf(int task) const { return source_[task]; }

 private:
  using TaskName = std::tuple<bool, int, int>;

  void Cannot(const std::string& why) {
    if (!fault_) fault_ = Fault{Fate::kCannot, why};
  }

  void Number(int rank) {
    const RankPlan& of_rank = plan_.ranks[rank];
    auto& lanes = number_of_.emplace_back();
    for (const Lane& lane : of_rank.lanes) {
      lanes.emplace_back();
      for (const Transfer& transfer : lane.transfers) {
        lanes.back().push_back(static_cast<int>(doings_.size()));
        doings_.push_back({.rank = rank, .transfer = &transfer});
      }
    }
    first_task_.push_back(static_cast<int>(doings_.size()));
    for (const Task& task : of_rank.tasks) {
      doings_.push_back({.rank = rank, .task = &task});
    }
  }

  int NumberOf(int rank, const TransferRef& ref) {
    const auto& lanes = number_of_[rank];
    if (ref.lane < 0 || ref.lane >= static_cast<int>(lanes.size()) ||
        ref.index < 0 ||
        ref.index >= static_cast<int>(lanes[ref.lane].size())) {
      Cannot("names a transfer that does not exist");
      return 0;
    }
    return lanes[ref.lane][ref.index];
  }

  void Connect(int rank) {
    const RankPlan& of_rank = plan_.ranks[rank];
    for (size_t i = 0; i < of_rank.tasks.size(); ++i) {
      const int task = first_task_[rank] + static_cast<int>(i);
      for (const TransferRef& ref : of_rank.tasks[i].after) {
        const int needed = NumberOf(rank, ref);
        if (fault_) return;
        doings_[task].needs.push_back(needed);
        if (doings_[needed].transfer->kind != TransferKind::kRecv) continue;
        doings_[task].arrives.push_back(needed);
        if (doings_[needed].needed_by == kNone) {
          doings_[needed].needed_by = task;
        }
      }
    }
    for (const auto& lane : number_of_[rank]) {
      for (const int number : lane) ConnectTransfer(rank, number);
    }
  }

  void ConnectTransfer(int rank, int number) {
    if (fault_) return;
    const Transfer& transfer = *doings_[number].transfer;
    for (const TransferRef& ref : transfer.after) {
      const int needed = NumberOf(rank, ref);
      if (fault_) return;
      doings_[number].needs.push_back(needed);
    }
    const int tasks = static_cast<int>(plan_.ranks[rank].tasks.size());
    if (transfer.after_task < kNone || transfer.after_task >= tasks) {
      return Cannot("comes after a task that does not exist");
    }
    if (transfer.after_task >= 0) {
      const int task = first_task_[rank] + transfer.after_task;
      doings_[number].needs.push_back(task);
      if (transfer.kind == TransferKind::kSend) {
        doings_[number].made_by = task;
        doings_[task].fills.push_back(number);
      }
    }
    OpenDoor(rank, number, transfer);
  }

  void OpenDoor(int rank, int number, const Transfer& transfer) {
    if (transfer.communicator < 0 ||
        transfer.communicator >= static_cast<int>(plan_.communicators.size())) {
      return Cannot("is on a communicator that does not exist");
    }
    const std::vector<int>& ranks = Group(transfer).ranks;
    const auto self = std::find(ranks.begin(), ranks.end(), rank);
    if (self == ranks.end()) return Cannot("is on a communicator of others");
    const int position = static_cast<int>(self - ranks.begin());
    int from = kNone;
    int to = kNone;
    const bool sends = transfer.kind == TransferKind::kSend;
    if (sends || transfer.kind == TransferKind::kRecv) {
      if (transfer.peer < 0 ||
          transfer.peer >= static_cast<int>(ranks.size()) ||
          transfer.peer == position) {
        return Cannot("has a peer that is none");
      }
      from = sends ? position : transfer.peer;
      to = sends ? transfer.peer : position;
    }
    doings_[number].door = doors_
                               .try_emplace({transfer.communicator, from, to},
                                            static_cast<int>(doors_.size()))
                               .first->second;
  }

  void Queue(int rank, bool one_queue) {
    const RankPlan& of_rank = plan_.ranks[rank];
    const size_t first = queues_.size();
    queues_.resize(first + (one_queue ? 1 : of_rank.lanes.size()));
    std::set<int> launched;
    std::vector<int> next(of_rank.lanes.size(), 0);
    std::optional<TransferRef> before;
    for (const TransferRef& ref : of_rank.launch_order) {
      const int number = NumberOf(rank, ref);
      if (fault_) return;
      if (!launched.insert(number).second || ref.index != next[ref.lane]++) {
        return Cannot("launches a lane in another order than its own");
      }
      auto& queue = queues_[first + (one_queue ? 0 : ref.lane)];
      const Transfer& transfer = *doings_[number].transfer;
      const bool joins =
          transfer.group != 0 && before && before->lane == ref.lane &&
          doings_[NumberOf(rank, *before)].transfer->group == transfer.group;
      if (!joins) queue.emplace_back();
      queue.back().push_back(number);
      before = ref;
    }
    size_t all = 0;
    for (const Lane& lane : of_rank.lanes) all += lane.transfers.size();
    if (launched.size() != all) return Cannot("never launches a transfer");
    std::vector<std::vector<int>> tasks;
    for (size_t i = 0; i < of_rank.tasks.size(); ++i) {
      tasks.push_back({first_task_[rank] + static_cast<int>(i)});
    }
    queues_.push_back(std::move(tasks));
  }

  static bool IsGradient(const Task& task) {
    return task.work == Work::kBackward || task.work == Work::kBackwardInput;
  }

  void FindTasks() {
    source_.assign(doings_.size(), kNone);
    for (size_t i = 0; i < doings_.size(); ++i) {
      const Task* task = doings_[i].task;
      if (task == nullptr) continue;
      stages_ = std::max(stages_, task->stage + 1);
      if (task->work == Work::kBackwardWeight) continue;
      const TaskName name{IsGradient(*task), task->stage, task->micro_batch};
      if (!task_called_.emplace(name, static_cast<int>(i)).second) {
        return Cannot("computes something twice");
      }
    }
  }

  // What a task must be given by others, and what it reads again at its end.
  void Expect(int number) {
    Doing& doing = doings_[number];
    const Task& task = *doing.task;
    if (task.work == Work::kBackward || task.work == Work::kBackwardWeight) {
      for (const bool gradient : {false, true}) {
        const auto own =
            task_called_.find({gradient, task.stage, task.micro_batch});
        if (own == task_called_.end()) return Cannot("lacks a pass");
        const std::vector<int>& arrived = doings_[own->second].arrives;
        doing.reads_again.insert(doing.reads_again.end(), arrived.begin(),
                                 arrived.end());
      }
    }
    if (task.work == Work::kBackwardWeight) return;
    const bool gradient = IsGradient(task);
    const int stage = task.stage + (gradient ? 1 : -1);
    if (stage < 0 || stage >= stages_) {
      if (!doing.arrives.empty()) Cannot("receives what nobody makes");
      return;
    }
    const auto source = task_called_.find({gradient, stage, task.micro_batch});
    if (source == task_called_.end()) return Cannot("lacks a pass");
    if (doings_[source->second].rank == doing.rank) return;
    source_[number] = source->second;
    CheckParts(doing, std::min(stage, task.stage), gradient);
  }

  // All parts of the message arrive, each once.
  void CheckParts(const Doing& task, int boundary, bool gradient) {
    const auto& all = plan_.pipeline.activations;
    if (all.empty()) return;
    const Activation& activation = all.size() == 1 ? all[0] : all[boundary];
    size_t parts = 0;
    for (const TensorType& part : activation.parts) {
      parts += !gradient || IsFloat(part.dtype) ? 1 : 0;
    }
    std::set<uint64_t> tags;
    for (const int arrival : task.arrives) {
      tags.insert(doings_[arrival].transfer->tag);
    }
    if (tags.size() != parts || task.arrives.size() != parts) {
      Cannot("is not given all parts of what it needs");
    }
  }

  const Plan& plan_;
  std::optional<Fault> fault_;
  std::vector<Doing> doings_;
  std::vector<std::vector<std::vector<int>>> number_of_;  // rank, lane, index
  std::vector<int> first_task_;
  std::vector<std::vector<std::vector<int>>> queues_;
  std::map<std::tuple<int, int, int>, int> doors_;
  std::map<TaskName, int> task_called_;
  std::vector<int> source_;
  int stages_ = 0;
};

}  // namespace lockstep::plan::judging

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_WIRING_H_
