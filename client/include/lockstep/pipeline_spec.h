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

#ifndef LOCKSTEP_CLIENT_INCLUDE_LOCKSTEP_PIPELINE_SPEC_H_
#define LOCKSTEP_CLIENT_INCLUDE_LOCKSTEP_PIPELINE_SPEC_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/dtype.h"

namespace lockstep {

// The order in which each rank runs its forward and backward passes. The values
// are part of the wire format and the journal: never renumber.
enum class PipelineSchedule : uint8_t {
  kNone = 1,         // no pipeline
  kGPipe = 2,        // all forward, then all backward
  kOneFOneB = 3,     // backward as early as possible: fewer live activations
  kInterleaved = 4,  // 1F1B over several virtual stages: a smaller bubble
  kZbH1 = 5,         // weight gradients fill the end: a third of the bubble
  kZbV = 6,          // two virtual stages in a V: almost no bubble
};

inline constexpr PipelineSchedule kAllPipelineSchedules[] = {
    PipelineSchedule::kNone,     PipelineSchedule::kGPipe,
    PipelineSchedule::kOneFOneB, PipelineSchedule::kInterleaved,
    PipelineSchedule::kZbH1,     PipelineSchedule::kZbV};

// "none", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"; "?" for an invalid
// value.
constexpr std::string_view Name(PipelineSchedule schedule) {
  switch (schedule) {
    case PipelineSchedule::kNone: return "none";
    case PipelineSchedule::kGPipe: return "gpipe";
    case PipelineSchedule::kOneFOneB: return "1f1b";
    case PipelineSchedule::kInterleaved: return "interleaved";
    case PipelineSchedule::kZbH1: return "zb-h1";
    case PipelineSchedule::kZbV: return "zb-v";
  }
  return "?";
}

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

// The type of a tensor with a fixed shape: f32[4,128].
struct TensorType {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  bool operator==(const TensorType&) const = default;
};

// The message from a stage to the next: one tensor or several parts. The
// gradient in the other direction has the floating-point parts only.
struct Activation {
  std::vector<TensorType> parts;
  bool operator==(const Activation&) const = default;
};

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

#endif  // LOCKSTEP_CLIENT_INCLUDE_LOCKSTEP_PIPELINE_SPEC_H_
