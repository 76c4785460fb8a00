// How a model is cut into pipeline stages, and how micro-batches flow through
// them: the `pipeline` section of a job spec.
//
//   rank 0  stage 0 ──activation──▶ rank 1  stage 1 ──▶ ... rank S-1  stage S-1
//                   ◀──gradient───                  ◀──
//
// With virtual stages a rank holds several parts of the model:
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

// In which order each rank does its forward and backward passes. The values are
// the wire's and the journal's: never renumber.
enum class PipelineSchedule : uint8_t {
  kNone = 1,         // no pipeline
  kGPipe = 2,        // all forward, then all backward
  kOneFOneB = 3,     // backward as early as possible: fewer activations kept
  kInterleaved = 4,  // 1F1B over several virtual stages: a smaller bubble
  kZbH1 = 5,         // weight gradients fill the end: a third of the bubble
  kZbV = 6,          // two virtual stages in a V: next to no bubble
};

inline constexpr PipelineSchedule kAllPipelineSchedules[] = {
    PipelineSchedule::kNone,     PipelineSchedule::kGPipe,
    PipelineSchedule::kOneFOneB, PipelineSchedule::kInterleaved,
    PipelineSchedule::kZbH1,     PipelineSchedule::kZbV};

// "none", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"; "?" for a value that
// is none.
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

// How messages between stages are numbered. The values are the wire's.
enum class PipelineTags : uint8_t {
  // One number for each (boundary, micro-batch, direction, part).
  kSafe = 1,
  // tag_base + 2 * micro_batch, + 1 for gradients: what other programs expect.
  // Only where that names one message: one virtual stage, one part.
  kPaired = 2,
};

constexpr std::string_view Name(PipelineTags tags) {
  switch (tags) {
    case PipelineTags::kSafe: return "safe";
    case PipelineTags::kPaired: return "paired";
  }
  return "?";
}

// The type of a tensor whose shape the plan knows: f32[4,128].
struct TensorType {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  bool operator==(const TensorType&) const = default;
};

// What a stage hands to the next: one tensor or several parts. The gradient
// that comes back has the parts that are floating point.
struct Activation {
  std::vector<TensorType> parts;
  bool operator==(const Activation&) const = default;
};

struct PipelineSpec {
  PipelineSchedule schedule = PipelineSchedule::kNone;
  std::string axis = "pipe";  // the mesh axis of the stages
  int micro_batches = 1;      // of each step
  int virtual_stages = 1;     // of each rank
  // One for each boundary between stages, or one for all of them.
  std::vector<Activation> activations;
  PipelineTags tags = PipelineTags::kSafe;
  uint64_t tag_base = 0;
  // Parameters that the first and the last stage share (tied embeddings): their
  // gradients are added up between the two.
  std::vector<std::string> shared;
  bool operator==(const PipelineSpec&) const = default;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CLIENT_INCLUDE_LOCKSTEP_PIPELINE_SPEC_H_
