// Passes of negotiated mode: what each rank submits, and the order that the
// coordinator decides.
//
// A pass is a step of a job whose graph may differ from step to step, and has
// the step's number. Parameters are indices in the plan. All of these messages
// are idempotent.

#ifndef LOCKSTEP_PROTOCOL_NEGOTIATION_H_
#define LOCKSTEP_PROTOCOL_NEGOTIATION_H_

#include <cstdint>
#include <vector>

namespace lockstep::protocol {

// A parameter's reduction in a pass: `announcers` ranks, at least one,
// contribute a gradient. With 0 announcers it closes the pass (`parameter` is
// 0): the sequence has no further reduction of the pass. A rank that reaches it
// may enter the verdict of the pass, and all ranks do so after the same
// reductions.
struct Decision {
  uint64_t pass = 0;
  uint32_t parameter = 0;
  uint32_t announcers = 0;
  bool operator==(const Decision&) const = default;
};

// The parameters that this rank will submit in this pass: all of them, sent
// once, also if empty. A parameter is decided when all ranks of its group have
// announced and those that announced it have submitted it.
struct Announce {
  uint64_t pass = 0;
  std::vector<uint32_t> parameters;
  bool operator==(const Announce&) const = default;
};

// More of the announced parameters are submitted.
struct Submitted {
  uint64_t pass = 0;
  std::vector<uint32_t> parameters;
  bool operator==(const Submitted&) const = default;
};

// The decisions that a started rank has: decisions[i] is number `first` + i of
// the epoch. On every new stream it is the first message about passes. Then the
// rank announces and submits again for the current pass. Decisions before the
// last two passes may be left out: every rank has them.
struct Held {
  uint64_t first = 0;
  std::vector<Decision> decisions;
  bool operator==(const Held&) const = default;
};

// decisions[i] is number `first` + i of the epoch, counted from 0. Every rank
// of a parameter's group takes part in its reduction, in this order.
struct Decide {
  uint64_t first = 0;
  std::vector<Decision> decisions;
  bool operator==(const Decide&) const = default;
};

}  // namespace lockstep::protocol

#endif  // LOCKSTEP_PROTOCOL_NEGOTIATION_H_
