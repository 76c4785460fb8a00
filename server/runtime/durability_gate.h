// Delays effects that promise something until it is durable.
//
//   Step's effects:   Note  Persist 7  Send  Send  Persist 8  AdminReply
//   released at once  ^^^^
//   when 7 is durable                  ^^^^  ^^^^
//   when 8 is durable                                         ^^^^^^^^^^
//
// Records are passed to the journal at once, so that it can batch writes; every
// other effect waits, in order, for all records before it. Except decisions of
// passes: they rest on the epoch's records, which were durable before it
// started, so negotiated steps go on while the disk is slow or full. A decision
// waits only behind other messages to the same stream.
//
// Threads: none; the coordinator's loop owns the only instance.

#ifndef LOCKSTEP_SERVER_RUNTIME_DURABILITY_GATE_H_
#define LOCKSTEP_SERVER_RUNTIME_DURABILITY_GATE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "protocol/record.h"
#include "server/core/event.h"

namespace lockstep::runtime {

class DurabilityGate {
 public:
  // Queues the effects of a Step and returns the records among them.
  std::vector<record::Record> Admit(core::Effects effects);

  // This record and all before it are durable.
  void MarkDurable(uint64_t record_number);

  // Removes and returns the effects that may be sent now, in order; never a
  // Persist.
  core::Effects Release();

  // Removes and returns the answers to operators among the delayed effects, in
  // order: for the time in which records cannot become durable.
  std::vector<core::AdminReply> TakeReplies();

  size_t held() const { return held_.size(); }

 private:
  bool MayPass(const core::Effect& effect) const;

  struct HeldEffect {
    uint64_t after;  // the record that must be durable first
    core::Effect effect;
  };
  std::deque<HeldEffect> held_;
  std::map<core::SessionId, int> held_sends_;  // how many of held_, by stream
  core::Effects passing_;
  uint64_t admitted_ = 0;  // the newest record seen
  uint64_t durable_ = 0;
};

}  // namespace lockstep::runtime

#endif  // LOCKSTEP_SERVER_RUNTIME_DURABILITY_GATE_H_
