// The memory of activations and gradients that stay on one rank: between two of
// its stages, and between the last stage and the loss. The plan has no transfer
// for them.
//
//   stage 3 ─ output ─▶ stage 4        both on the last rank of a zb-v
//           ◀─ gradient ─
//   last stage ─ output ─▶ loss
//              ◀─ gradient ─
//
// A pair of output and gradient is in use from the forward pass that writes it
// until both stages have finished the micro-batch. The order of the rank's
// tasks determines how many pairs are in use at once.

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
#include "lockstep/stream.h"
#include "plan/ir.h"

namespace lockstep::pipeline {

class Handoffs {
 public:
  // `stages` is the model's number of stages.
  Handoffs(const plan::RankPlan& rank, const PipelineSpec& spec, int stages);

  // Allocates the memory that is missing. `output` is the type of the last
  // stage's output; ignored on other ranks. Memory of another type than before
  // is replaced, once `free` is complete.
  absl::Status Prepare(const Activation& output, const Event& free,
                       const Buffers::Allocate& allocate);

  // Whether both sides of `boundary` are on this rank: that stage and the next,
  // or the loss.
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

  static absl::Status Make(const Activation& type, const Event& free,
                           const Buffers::Allocate& allocate, Slots& slots);

  std::map<int, Slots> slots_;  // by boundary
  int last_boundary_;           // to the loss
};

}  // namespace lockstep::pipeline

#endif  // LOCKSTEP_CLIENT_PIPELINE_HANDOFFS_H_
