// Runs a plan's queues, one step at a time: transfers meet by order alone, and
// stamps say what lies in each buffer.

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_MACHINE_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_MACHINE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/ir.h"
#include "tests/plan/mutation/judge.h"
#include "tests/plan/mutation/wiring.h"

namespace lockstep::plan::judging {

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

}  // namespace lockstep::plan::judging

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_MACHINE_H_
