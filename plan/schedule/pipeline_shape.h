// Derives the shape of schedules and messages from a pipeline spec.

#ifndef LOCKSTEP_PLAN_SCHEDULE_PIPELINE_SHAPE_H_
#define LOCKSTEP_PLAN_SCHEDULE_PIPELINE_SHAPE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/mesh.h"
#include "lockstep/pipeline_spec.h"
#include "plan/schedule/schedule.h"

namespace lockstep::plan {

inline bool HasPipeline(const PipelineSpec& spec) {
  return spec.schedule != PipelineSchedule::kNone;
}

// The axis must be one of the mesh.
ScheduleShape ShapeOf(const PipelineSpec& spec, const Mesh& mesh);

// The activation from stage `boundary` to the next; the spec must be valid.
const Activation& ActivationAt(const PipelineSpec& spec, int boundary);

// Tags fit in 32 bits, which every transport supports.
inline constexpr uint64_t kTagMax = 0xffffffff;

// A message between two stages.
struct MessageName {
  int boundary = 0;  // from stage `boundary` to the next
  int micro_batch = 0;
  bool is_gradient = false;
  int part = 0;
};

// The message's tag, unique among the messages of the same ranks:
//
//   safe    tag_base + ((boundary * M + micro_batch) * 2 + gradient) * P + part
//           P: the most parts of any activation
//   paired  tag_base + 2 * micro_batch + gradient
//
// OutOfRange if it exceeds kTagMax; the message has both values.
absl::StatusOr<uint64_t> TagOf(const PipelineSpec& spec,
                               const MessageName& message);

// Why a field of the spec is out of its domain, with the domain; empty if it is
// not, and always without a pipeline. Each function assumes that the fields of
// the earlier ones are valid.
std::string AxisFault(const PipelineSpec& spec, const Mesh& mesh);
std::string ScheduleFault(const PipelineSpec& spec, const Mesh& mesh);
std::string ActivationsFault(const PipelineSpec& spec, const Mesh& mesh);
std::string TagsFault(const PipelineSpec& spec, const Mesh& mesh);

// InvalidArgument with the first of these faults and its field:
// "pipeline.schedule: ...".
absl::Status Validate(const PipelineSpec& spec, const Mesh& mesh);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_SCHEDULE_PIPELINE_SHAPE_H_
