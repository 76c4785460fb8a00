#include "tests/plan/mutation/judge.h"

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

namespace lockstep::plan {
namespace {

constexpr int kNone = -1;

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

// One moment of a run. Copied at every step.
struct State {
  std::vector<uint8_t> next;     // of each queue: units launched
  std::vector<uint8_t> is_done;  // doings
  // Of each door: what waits there, and for whom.
  std::vector<std::vector<int>> waiting;
  std::map<std::pair<int, int>, int> memory;  // rank, buffer: stamp

  std::string Key() const {
    std::string key(next.begin(), next.end());
    key.append(is_done.begin(), is_done.end());
    for (const std::vector<int>& door : waiting) {
      key.push_back('|');
      for (const int number : door) key.append(std::to_string(number) + ",");
    }
    for (const auto& [place, stamp] : memory) {
      key.append(std::to_string(stamp) + ";");
    }
    return key;
  }
};

class Machine {
 public:
  explicit Machine(const Wiring& wiring)
      : wiring_(wiring), doings_(wiring.doings()) {}

  State Begin() const {
    State state;
    state.next.assign(wiring_.queues().size(), 0);
    state.is_done.assign(doings_.size(), 0);
    state.waiting.resize(wiring_.doors());
    return state;
  }

  // The queues that can go on.
  std::vector<int> Ready(const State& state) const {
    std::vector<int> ready;
    for (size_t q = 0; q < wiring_.queues().size(); ++q) {
      if (CanGoOn(state, static_cast<int>(q))) {
        ready.push_back(static_cast<int>(q));
      }
    }
    return ready;
  }

  bool IsOver(const State& state) const {
    return std::all_of(state.is_done.begin(), state.is_done.end(),
                       [](uint8_t done) { return done != 0; });
  }

  std::optional<Fault> Step(int queue, State& state) const {
    const std::vector<int>& unit = wiring_.queues()[queue][state.next[queue]++];
    for (const int number : unit) {
      const std::optional<Fault> fault = doings_[number].task != nullptr
                                             ? Compute(number, state)
                                             : Arrive(number, state);
      if (fault) return fault;
    }
    return std::nullopt;
  }

 private:
  // A stamp names the task and the tag.
  int StampOf(int send) const {
    const Doing& doing = doings_[send];
    return doing.made_by * 65536 +
           static_cast<int>(doing.transfer->tag % 65536);
  }
  int WantedBy(int receive) const {
    const int source = wiring_.SourceOf(doings_[receive].needed_by);
    return source * 65536 +
           static_cast<int>(doings_[receive].transfer->tag % 65536);
  }

  bool CanGoOn(const State& state, int queue) const {
    const auto& units = wiring_.queues()[queue];
    const size_t next = state.next[queue];
    if (next == units.size()) return false;
    if (next > 0) {
      for (const int number : units[next - 1]) {
        if (!state.is_done[number]) return false;
      }
    }
    for (const int number : units[next]) {
      for (const int need : doings_[number].needs) {
        if (!state.is_done[need]) return false;
      }
    }
    return true;
  }

  std::optional<Fault> Compute(int number, State& state) const {
    const Doing& doing = doings_[number];
    for (const std::vector<int>* reads : {&doing.arrives, &doing.reads_again}) {
      for (const int receive : *reads) {
        const int buffer = doings_[receive].transfer->buffer;
        if (buffer == kNone) continue;
        const auto found = state.memory.find({doing.rank, buffer});
        if (found == state.memory.end() || found->second != WantedBy(receive)) {
          return Fault{Fate::kMismatch, "a buffer was overwritten"};
        }
      }
    }
    for (const int send : doing.fills) {
      const int buffer = doings_[send].transfer->buffer;
      if (buffer != kNone) {
        state.memory[{doing.rank, buffer}] = StampOf(send);
      }
    }
    state.is_done[number] = 1;
    return std::nullopt;
  }

  std::optional<Fault> Arrive(int number, State& state) const {
    const Doing& doing = doings_[number];
    if (doing.transfer->kind == TransferKind::kRecv &&
        doing.transfer->buffer != kNone) {
      state.memory[{doing.rank, doing.transfer->buffer}] = kNone;
    }
    std::vector<int>& waiting = state.waiting[doing.door];
    waiting.push_back(number);
    return IsPointToPoint(doing.transfer->kind) ? MeetPair(waiting, state)
                                                : MeetAll(waiting, state);
  }

  // The first that waits on each side.
  std::optional<Fault> MeetPair(std::vector<int>& waiting, State& state) const {
    const auto first = [&](TransferKind kind) {
      return std::find_if(waiting.begin(), waiting.end(), [&](int number) {
        return doings_[number].transfer->kind == kind;
      });
    };
    const auto send = first(TransferKind::kSend);
    const auto receive = first(TransferKind::kRecv);
    if (send == waiting.end() || receive == waiting.end()) return std::nullopt;
    const int sent = *send;
    const int received = *receive;
    std::erase(waiting, sent);
    std::erase(waiting, received);
    return Deliver(sent, received, state);
  }

  std::optional<Fault> Deliver(int sent, int received, State& state) const {
    const Doing& from = doings_[sent];
    const Doing& to = doings_[received];
    if (from.transfer->shape != to.transfer->shape ||
        from.transfer->dtype != to.transfer->dtype) {
      return Fault{Fate::kMismatch, "unequal types meet"};
    }
    int payload = from.made_by == kNone ? kNone : StampOf(sent);
    if (from.made_by != kNone && from.transfer->buffer != kNone) {
      payload = state.memory[{from.rank, from.transfer->buffer}];
    }
    const bool wanted = to.needed_by != kNone;
    if (wanted && payload != WantedBy(received)) {
      return Fault{Fate::kMismatch, "another message arrives than is wanted"};
    }
    if (!wanted && from.transfer->tag != to.transfer->tag) {
      return Fault{Fate::kMismatch, "unequal tags meet"};
    }
    if (to.transfer->buffer != kNone) {
      state.memory[{to.rank, to.transfer->buffer}] = payload;
    }
    state.is_done[sent] = state.is_done[received] = 1;
    return std::nullopt;
  }

  // The first of each member, once all are there.
  std::optional<Fault> MeetAll(std::vector<int>& waiting, State& state) const {
    const Communicator& group = wiring_.Group(*doings_[waiting[0]].transfer);
    std::vector<int> met;
    for (const int rank : group.ranks) {
      const auto member = std::find_if(
          waiting.begin(), waiting.end(),
          [&](int number) { return doings_[number].rank == rank; });
      if (member == waiting.end()) return std::nullopt;
      met.push_back(*member);
    }
    const Transfer& first = *doings_[met[0]].transfer;
    for (const int number : met) {
      const Transfer& other = *doings_[number].transfer;
      int64_t count = 1;
      int64_t first_count = 1;
      for (const int64_t extent : other.shape) count *= extent;
      for (const int64_t extent : first.shape) first_count *= extent;
      if (other.kind != first.kind || count != first_count ||
          other.dtype != first.dtype || other.op != first.op ||
          other.root != first.root || other.bucket != first.bucket) {
        return Fault{Fate::kMismatch, "unequal collectives meet"};
      }
      state.is_done[number] = 1;
      std::erase(waiting, number);
    }
    return std::nullopt;
  }

  const Wiring& wiring_;
  const std::vector<Doing>& doings_;
};

Verdict Explore(const Machine& machine, size_t states_max) {
  std::unordered_set<std::string> seen;
  std::vector<State> open = {machine.Begin()};
  seen.insert(open[0].Key());
  while (!open.empty()) {
    const State state = std::move(open.back());
    open.pop_back();
    const std::vector<int> ready = machine.Ready(state);
    if (ready.empty() && !machine.IsOver(state)) {
      return {Fate::kHangs, "nobody can go on", seen.size()};
    }
    for (const int queue : ready) {
      State next = state;
      if (const auto fault = machine.Step(queue, next)) {
        return {fault->fate, fault->why, seen.size()};
      }
      if (seen.insert(next.Key()).second) open.push_back(std::move(next));
    }
    if (seen.size() > states_max) {
      return {Fate::kUnknown, "too many states", seen.size()};
    }
  }
  return {Fate::kRuns, "", seen.size()};
}

Verdict RunOnce(const Machine& machine, std::mt19937_64& random) {
  State state = machine.Begin();
  for (size_t steps = 0;; ++steps) {
    const std::vector<int> ready = machine.Ready(state);
    if (ready.empty()) {
      return machine.IsOver(state)
                 ? Verdict{Fate::kRuns, "", steps}
                 : Verdict{Fate::kHangs, "nobody can go on", steps};
    }
    if (const auto fault =
            machine.Step(ready[random() % ready.size()], state)) {
      return {fault->fate, fault->why, steps};
    }
  }
}

}  // namespace

Verdict JudgeAll(const Plan& plan, size_t states_max) {
  size_t states = 0;
  // The one queue first: it has fewer states, and most faults show in it.
  for (const bool one_queue : {true, false}) {
    const Wiring wiring(plan, one_queue);
    if (wiring.fault()) {
      return {wiring.fault()->fate, wiring.fault()->why, states};
    }
    Verdict verdict = Explore(Machine(wiring), states_max);
    states += verdict.states;
    verdict.states = states;
    if (verdict.fate != Fate::kRuns) return verdict;
  }
  return {Fate::kRuns, "", states};
}

Verdict JudgeSome(const Plan& plan, uint64_t seed, int runs) {
  std::mt19937_64 random(seed);
  for (const bool one_queue : {true, false}) {
    const Wiring wiring(plan, one_queue);
    if (wiring.fault()) return {wiring.fault()->fate, wiring.fault()->why};
    for (int i = 0; i < runs; ++i) {
      Verdict verdict = RunOnce(Machine(wiring), random);
      if (verdict.fate != Fate::kRuns) return verdict;
    }
  }
  return {};
}

}  // namespace lockstep::plan
