// What passes between two stages of one rank, and between the last stage and
// the loss: no message, so no transfer of the plan, but memory all the same.
//
//   stage 3 ─ output ─▶ stage 4        both on the last rank of a zb-v
//           ◀─ gradient ─
//   last stage ─ output ─▶ loss
//              ◀─ gradient ─
//
// A pair of output and gradient is in use from the forward pass that fills it
// until both stages are done with the micro-batch. The order of the rank's
// tasks says how many are in use at once.

#ifndef LOCKSTEP_CLIENT_PIPELINE_HANDOFFS_H_
#define LOCKSTEP_CLIENT_PIPELINE_HANDOFFS_H_

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/pipeline/buffers.h"
#include "lockstep/arena.h"
#include "lockstep/pipeline_stage.h"
#include "plan/ir.h"

namespace lockstep::pipeline {

class Handoffs {
 public:
  // `stages` is the model's number of stages.
  Handoffs(const plan::RankPlan& rank, const PipelineSpec& spec, int stages);

  // Makes the memory that is not there yet. `output` is the last stage's, of
  // no meaning on other ranks.
  absl::Status Prepare(const Activation& output,
                       const Buffers::Allocate& allocate);

  // Is `boundary` (from that stage to the next, or the loss) one of these?
  bool Has(int boundary) const { return slots_.contains(boundary); }

  std::vector<TensorView> Output(int boundary, int micro_batch) const;
  std::vector<TensorView> Gradient(int boundary, int micro_batch) const;

 private:
  struct Pair {
    std::vector<std::pair<TensorType, ArenaBuffer>> output;
    std::vector<std::pair<TensorType, ArenaBuffer>> gradient;
  };
  struct Slots {
    std::map<int, int> of_micro_batch;
    std::vector<Pair> pairs;
    Activation type;
  };

  static absl::Status Make(const Activation& type,
                           const Buffers::Allocate& allocate, Slots& slots);

  std::map<int, Slots> slots_;  // by boundary
  int last_boundary_;           // to the loss
};

}  // namespace lockstep::pipeline

#endif  // LOCKSTEP_CLIENT_PIPELINE_HANDOFFS_H_
