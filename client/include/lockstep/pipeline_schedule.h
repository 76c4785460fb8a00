// Pipeline schedules by name.

#ifndef LOCKSTEP_PIPELINE_SCHEDULE_H_
#define LOCKSTEP_PIPELINE_SCHEDULE_H_

#include <cstdint>
#include <string_view>

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

}  // namespace lockstep

#endif  // LOCKSTEP_PIPELINE_SCHEDULE_H_
