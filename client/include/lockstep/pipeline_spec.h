// The `pipeline` section of a job spec: the stages of a model, and the schedule
// of micro-batches.
//
//   rank 0  stage 0 ──activation──▶ rank 1  stage 1 ──▶ ... rank S-1  stage S-1
//                   ◀──gradient───                  ◀──
//
// With virtual stages a rank has several parts of the model:
//
//   interleaved, 2 ranks, 2 each     rank 0: stages 0, 2    rank 1: 1, 3
//   zb-v, 2 ranks                    rank 0: stages 0, 3    rank 1: 1, 2

#ifndef LOCKSTEP_PIPELINE_SPEC_H_
#define LOCKSTEP_PIPELINE_SPEC_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/pipeline_schedule.h"
#include "lockstep/tensor_type.h"

namespace lockstep {

// How messages between stages are numbered. The values are part of the wire
// format.
enum class PipelineTags : uint8_t {
  // One number for each (boundary, micro-batch, direction, part).
  kSafe = 1,
  // tag_base + 2 * micro_batch, + 1 for gradients, for compatibility with other
  // programs. Allowed only where this is unique: one virtual stage, one part.
  kPaired = 2,
};

constexpr std::string_view Name(PipelineTags tags) {
  switch (tags) {
    case PipelineTags::kSafe: return "safe";
    case PipelineTags::kPaired: return "paired";
  }
  return "?";
}

struct PipelineSpec {
  PipelineSchedule schedule = PipelineSchedule::kNone;
  std::string axis = "pipe";  // the mesh axis of the stages
  int micro_batches = 1;      // per step
  int virtual_stages = 1;     // per rank
  // One for each boundary between stages, or a single one for all boundaries.
  std::vector<Activation> activations;
  PipelineTags tags = PipelineTags::kSafe;
  uint64_t tag_base = 0;
  // Names of the parameters that the first and the last stage share (tied
  // embeddings): their gradients are summed over the two.
  std::vector<std::string> shared;
  bool operator==(const PipelineSpec&) const = default;
};

}  // namespace lockstep

#endif  // LOCKSTEP_PIPELINE_SPEC_H_
