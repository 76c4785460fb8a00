#include "tests/plan/mutation/machine.h"

#include <algorithm>

#include "tests/plan/mutation/stamp.h"

namespace lockstep::plan::oracle {
namespace {

// A bucket's payload is the weighted sum of its gradients' stamps.
uint64_t WeightOf(int parameter) {
  return StampOf({static_cast<uint64_t>(parameter)}) | 1;
}

int64_t ElementsOf(const Transfer& transfer) {
  int64_t count = 1;
  for (const int64_t extent : transfer.shape) count *= extent;
  return count;
}

Flow FlowOf(const Task& task) {
  return task.work == Work::kForward ? Flow::kForward : Flow::kGradient;
}

bool IsLast(const Task& task) {
  return task.work == Work::kBackward || task.work == Work::kBackwardWeight;
}

}  // namespace

uint64_t State::Key() const {
  uint64_t key = 0;
  for (const uint16_t n : next) key = StampOf({key, n});
  for (const uint16_t n : waiting) key = StampOf({key, n});
  key = StampOf({key, waiting.size()});
  for (const uint64_t cell : cells) key = StampOf({key, cell});
  for (size_t i = 0; i < is_done.size(); i += 64) {
    uint64_t bits = 0;
    for (size_t j = i; j < std::min(i + 64, is_done.size()); ++j) {
      bits = bits << 1 | is_done[j];
    }
    key = StampOf({key, bits});
  }
  return key;
}

Machine::Machine(const Expected& expected, const Wiring& wiring,
                 const Memory& memory)
    : expected_(expected),
      wiring_(wiring),
      memory_(memory),
      steps_(wiring.steps()),
      payload_at_(steps_.size(), kNone),
      cells_(memory.cells()) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Role role = steps_[i].role;
    if (role == Role::kSharedSum || role == Role::kReduce ||
        role == Role::kReduceFlags || role == Role::kExchange ||
        role == Role::kGatherSums) {
      payload_at_[i] = static_cast<int>(cells_++);
    }
  }
}

State Machine::Begin() const {
  State state;
  state.next.assign(wiring_.queues().size(), 0);
  state.is_done.assign(steps_.size(), 0);
  state.cells.assign(cells_, kGarbage);
  state.left = static_cast<int>(steps_.size());
  return state;
}

bool Machine::IsReady(const State& state, int queue) const {
  const auto& units = wiring_.queues()[queue];
  const size_t next = state.next[queue];
  if (next == units.size()) return false;
  if (next > 0) {
    for (const int step : units[next - 1]) {
      if (state.is_done[step] == 0) return false;
    }
  }
  for (const int step : units[next]) {
    for (const int need : steps_[step].needs) {
      if (state.is_done[need] == 0) return false;
    }
  }
  return true;
}

std::vector<int> Machine::Ready(const State& state) const {
  std::vector<int> ready;
  for (size_t q = 0; q < wiring_.queues().size(); ++q) {
    if (IsReady(state, static_cast<int>(q))) {
      ready.push_back(static_cast<int>(q));
    }
  }
  return ready;
}

std::optional<Fault> Machine::Launch(int queue, State& state) const {
  const std::vector<int>& unit = NextUnit(state, queue);
  ++state.next[queue];
  // All steps of a unit start before one of them completes.
  for (const int number : unit) {
    const Step& step = steps_[number];
    if (step.role == Role::kReceive) {
      state.cells[memory_.Buffer(step)] = kGarbage;
    }
    if (payload_at_[number] != kNone) {
      state.cells[payload_at_[number]] = PayloadOf(step, state);
    }
  }
  for (const int number : unit) {
    const std::optional<Fault> fault = steps_[number].transfer == nullptr
                                           ? Compute(number, state)
                                           : Arrive(number, state);
    if (fault) return fault;
  }
  return std::nullopt;
}

void Machine::Finish(int step, State& state) const {
  state.is_done[step] = 1;
  --state.left;
}

// --- Tasks ---

uint64_t Machine::DesiredCommands(const Step& receive) const {
  const Step& reader = steps_[receive.needed_by];
  const Task& task = *reader.task;
  const Flow flow = FlowOf(task);
  const int source = task.stage + (flow == Flow::kForward ? -1 : 1);
  return PartOf(expected_.Result(flow, source, task.micro_batch,
                                 expected_.ReplicaOf(reader.rank)),
                receive.part);
}

bool Machine::Reads(const std::vector<int>& receives,
                    const State& state) const {
  return std::all_of(receives.begin(), receives.end(), [&](int number) {
    const Step& receive = steps_[number];
    return state.cells[memory_.Buffer(receive)] == DesiredCommands(receive);
  });
}

std::optional<Fault> Machine::Compute(int number, State& state) const {
  const Step& step = steps_[number];
  Finish(number, state);
  if (step.role == Role::kLocalCompute) {
    for (const int parameter : memory_.ContributesTo(number)) {
      state.cells[memory_.Gradient(step.rank, parameter)] +=
          Expected::RankContribution(step.rank);
    }
    return std::nullopt;
  }
  const Task& task = *step.task;
  const int replica = expected_.ReplicaOf(step.rank);
  if (!Reads(step.inputs, state)) {
    return Fault{Fate::kMismatch, "a task is given other data than it needs"};
  }
  if (!Reads(step.rereads, state)) {
    return Fault{Fate::kMismatch,
                 "a buffer is overwritten before its last use"};
  }
  for (const int send : step.outputs) {
    state.cells[memory_.Buffer(steps_[send])] = PartOf(
        expected_.Result(FlowOf(task), task.stage, task.micro_batch, replica),
        steps_[send].part);
  }
  if (!IsLast(task)) return std::nullopt;
  for (const int parameter : memory_.ContributesTo(number)) {
    state.cells[memory_.Gradient(step.rank, parameter)] +=
        expected_.Contribution(task.stage, task.micro_batch, replica);
  }
  return std::nullopt;
}

// --- Transfers ---

std::optional<Fault> Machine::Arrive(int number, State& state) const {
  const int channel = steps_[number].channel;
  // Sorted by channel, so that equal states have equal lists.
  const auto behind = std::upper_bound(
      state.waiting.begin(), state.waiting.end(), channel,
      [&](int of, uint16_t other) { return of < steps_[other].channel; });
  state.waiting.insert(behind, static_cast<uint16_t>(number));
  return IsPointToPoint(steps_[number].transfer->kind)
             ? MeetPair(channel, state)
             : MeetAll(channel, state);
}

// Matches the first waiting transfer of each end.
std::optional<Fault> Machine::MeetPair(int channel, State& state) const {
  const auto first = [&](TransferKind kind) {
    return std::find_if(state.waiting.begin(), state.waiting.end(),
                        [&](uint16_t number) {
                          return steps_[number].channel == channel &&
                                 steps_[number].transfer->kind == kind;
                        });
  };
  const auto send = first(TransferKind::kSend);
  const auto receive = first(TransferKind::kRecv);
  if (send == state.waiting.end() || receive == state.waiting.end()) {
    return std::nullopt;
  }
  const uint16_t sent = *send;
  const uint16_t received = *receive;
  std::erase(state.waiting, sent);
  std::erase(state.waiting, received);
  return Deliver(sent, received, state);
}

std::optional<Fault> Machine::Deliver(int sent, int received,
                                      State& state) const {
  const Step& from = steps_[sent];
  const Step& to = steps_[received];
  if (from.transfer->shape != to.transfer->shape ||
      from.transfer->dtype != to.transfer->dtype) {
    return Fault{Fate::kMismatch, "unequal types meet"};
  }
  if (from.transfer->tag != to.transfer->tag) {
    return Fault{Fate::kMismatch, "unequal tags meet"};
  }
  if (to.role == Role::kReceive) {
    state.cells[memory_.Buffer(to)] =
        from.role == Role::kSend ? state.cells[memory_.Buffer(from)] : kGarbage;
  }
  Finish(sent, state);
  Finish(received, state);
  return std::nullopt;
}

// Matches the first waiting transfer of each member, if all have one.
std::optional<Fault> Machine::MeetAll(int channel, State& state) const {
  std::vector<int> met;
  const auto waits = [&](uint16_t number) {
    return steps_[number].channel == channel;
  };
  const auto any =
      std::find_if(state.waiting.begin(), state.waiting.end(), waits);
  for (const int rank : wiring_.GroupOf(steps_[*any]).ranks) {
    const auto member = std::find_if(
        state.waiting.begin(), state.waiting.end(), [&](uint16_t number) {
          return waits(number) && steps_[number].rank == rank;
        });
    if (member == state.waiting.end()) return std::nullopt;
    met.push_back(*member);
  }
  const Transfer& first = *steps_[met[0]].transfer;
  for (const int number : met) {
    const Transfer& other = *steps_[number].transfer;
    if (other.kind != first.kind || ElementsOf(other) != ElementsOf(first) ||
        other.dtype != first.dtype || other.op != first.op ||
        other.root != first.root || other.bucket != first.bucket) {
      return Fault{Fate::kMismatch, "unequal collectives meet"};
    }
    std::erase(state.waiting, static_cast<uint16_t>(number));
  }
  return Complete(met, state);
}

// The input of a collective.
uint64_t Machine::PayloadOf(const Step& step, const State& state) const {
  if (step.role == Role::kSharedSum) {
    return state.cells[memory_.Gradient(step.rank, step.parameter)];
  }
  const int bucket = step.transfer->bucket;
  if (step.role == Role::kGatherSums) {
    return state.cells[memory_.Partial(step.rank, bucket)];
  }
  uint64_t payload = 0;
  const std::vector<Slot>& slots = wiring_.plan().buckets[bucket].slots;
  for (size_t i = 0; i < slots.size(); ++i) {
    const uint64_t gradient =
        state.cells[memory_.Gradient(step.rank, slots[i].parameter)];
    if (step.role == Role::kReduceFlags) {
      payload |= gradient != 0 ? uint64_t{1} << i : 0;
    } else {
      payload += gradient * WeightOf(slots[i].parameter);
    }
  }
  return payload;
}

uint64_t Machine::WantedTotal(const Step& step) const {
  uint64_t total = 0;
  const Bucket& bucket = wiring_.plan().buckets[step.transfer->bucket];
  for (size_t i = 0; i < bucket.slots.size(); ++i) {
    const int parameter = bucket.slots[i].parameter;
    const uint64_t gradient = expected_.Total(step.rank, parameter);
    if (step.role == Role::kReduceFlags) {
      total |= gradient != 0 ? uint64_t{1} << i : 0;
    } else {
      total += gradient * WeightOf(parameter);
    }
  }
  return total;
}

std::optional<Fault> Machine::Complete(const std::vector<int>& met,
                                       State& state) const {
  uint64_t sum = 0;
  uint64_t any = 0;
  for (const int number : met) {
    if (payload_at_[number] == kNone) continue;
    sum += state.cells[payload_at_[number]];
    any |= state.cells[payload_at_[number]];
  }
  for (const int number : met) {
    const Step& step = steps_[number];
    Finish(number, state);
    bool is_right = true;
    switch (step.role) {
      case Role::kSharedSum:
        state.cells[memory_.Gradient(step.rank, step.parameter)] = sum;
        break;
      case Role::kExchange:
        state.cells[memory_.Partial(step.rank, step.transfer->bucket)] = sum;
        break;
      case Role::kGatherSums:
        is_right = state.cells[payload_at_[number]] == WantedTotal(step);
        break;
      case Role::kReduceFlags: is_right = any == WantedTotal(step); break;
      case Role::kReduce: is_right = sum == WantedTotal(step); break;
      default: break;
    }
    if (!is_right) {
      return Fault{Fate::kMismatch,
                   "a gradient is not the sum that it must be"};
    }
  }
  for (const int number : met) {
    if (payload_at_[number] != kNone) state.cells[payload_at_[number]] = 0;
  }
  return std::nullopt;
}

}  // namespace lockstep::plan::oracle
