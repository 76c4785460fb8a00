// Runs the queues of a plan, one unit at a time. Transfers match by order
// alone, as on a network without tags. Stamps (stamp.h) are the contents of
// buffers and gradients.
//
//   task        reads its inputs, and at the last task of a micro-batch reads
//               them again, from the buffers of their receives; writes its
//               result into the buffers of its sends; adds its contribution to
//               gradients
//   receive     leaves garbage in its buffer from launch to completion
//   send        reads its buffer when it matches its receive
//   shared sum, reduction
//               take the gradients at launch; a shared sum replaces them on
//               completion
//
// Faults: a task reads another stamp than the expected one; a reduction's
// result is not the expected total; types, tags or collectives that match are
// unequal.

#ifndef LOCKSTEP_TESTS_PLAN_MUTATION_MACHINE_H_
#define LOCKSTEP_TESTS_PLAN_MUTATION_MACHINE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/plan/mutation/expected.h"
#include "tests/plan/mutation/memory.h"
#include "tests/plan/mutation/wiring.h"

namespace lockstep::plan::oracle {

// A state of a run. A search copies it at every branch.
struct State {
  std::vector<uint16_t> next;     // of each queue: units launched
  std::vector<uint8_t> is_done;   // steps
  std::vector<uint16_t> waiting;  // unmatched transfers, by channel, then time
  std::vector<uint64_t> cells;    // memory, then payloads of collectives
  int left = 0;                   // steps that are not done

  // A hash of the state.
  uint64_t Key() const;
};

class Machine {
 public:
  // The arguments must outlive this.
  Machine(const Expected& expected, const Wiring& wiring, const Memory& memory);

  State Begin() const;
  bool IsReady(const State& state, int queue) const;
  // Queues whose next unit can start.
  std::vector<int> Ready(const State& state) const;
  const std::vector<int>& NextUnit(const State& state, int queue) const {
    return wiring_.queues()[queue][state.next[queue]];
  }
  std::optional<Fault> Launch(int queue, State& state) const;

 private:
  void Finish(int step, State& state) const;
  bool Reads(const std::vector<int>& receives, const State& state) const;
  uint64_t DesiredCommands(const Step& receive) const;
  std::optional<Fault> Compute(int number, State& state) const;
  std::optional<Fault> Arrive(int number, State& state) const;
  std::optional<Fault> MeetPair(int channel, State& state) const;
  std::optional<Fault> Deliver(int sent, int received, State& state) const;
  std::optional<Fault> MeetAll(int channel, State& state) const;
  std::optional<Fault> Complete(const std::vector<int>& met,
                                State& state) const;
  uint64_t PayloadOf(const Step& step, const State& state) const;
  uint64_t WantedTotal(const Step& step) const;

  const Expected& expected_;
  const Wiring& wiring_;
  const Memory& memory_;
  const std::vector<Step>& steps_;
  std::vector<int> payload_at_;  // of each step: a cell, or kNone
  size_t cells_ = 0;
};

}  // namespace lockstep::plan::oracle

#endif  // LOCKSTEP_TESTS_PLAN_MUTATION_MACHINE_H_
