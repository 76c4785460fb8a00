// What a pipeline spec says, in the words of schedules and transfers.

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

// What goes from stage `boundary` to the next; the spec must be valid.
const Activation& ActivationAt(const PipelineSpec& spec, int boundary);

// Tags fit the 32 bits that every transport and every peer can hold.
inline constexpr uint64_t kTagMax = 0xffffffff;

// A message between two stages.
struct MessageName {
  int boundary = 0;  // from stage `boundary` to the next
  int micro_batch = 0;
  bool is_gradient = false;
  int part = 0;
};

// The message's tag, different from that of every other message of the same
// ranks:
//
//   safe    tag_base + ((boundary * M + micro_batch) * 2 + gradient) * P + part
//           P: the most parts of any activation
//   paired  tag_base + 2 * micro_batch + gradient
//
// OutOfRange if it is beyond kTagMax: says tag and limit.
absl::StatusOr<uint64_t> TagOf(const PipelineSpec& spec,
                               const MessageName& message);

// Why a field of the spec is out of its domain, which is said; empty if it is
// not, and always without a pipeline. Each takes for granted that those before
// it have no fault.
std::string AxisFault(const PipelineSpec& spec, const Mesh& mesh);
std::string ScheduleFault(const PipelineSpec& spec, const Mesh& mesh);
std::string ActivationsFault(const PipelineSpec& spec, const Mesh& mesh);
std::string TagsFault(const PipelineSpec& spec, const Mesh& mesh);

// InvalidArgument with the first of these faults and its field:
// "pipeline.schedule: ...".
absl::Status Validate(const PipelineSpec& spec, const Mesh& mesh);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_SCHEDULE_PIPELINE_SHAPE_H_
