// The messages of a schedule, in the one order in which all ranks launch them.
//
//   rank 0  F0 ─▶ F1 ─▶           a message is placed where its sender is done
//   rank 1     F0 B0 ─▶ F1 B1     in a play of the schedule in which sending
//                                 takes no time: 0>1 F0, 0>1 F1, 0<1 B0, ...
//
// At one moment gradients come first, those of higher ranks before those of
// lower ones, then activations, the other way round.
//
// Whatever waits for whom in a plan made of this, tasks and buffers included,
// waits for something earlier in this order: so it cannot come to a circle,
// also if a rank can only do one transfer at a time.

#ifndef LOCKSTEP_PLAN_PIPELINE_FLOW_H_
#define LOCKSTEP_PLAN_PIPELINE_FLOW_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/mesh.h"
#include "lockstep/pipeline_spec.h"
#include "plan/schedule/schedule.h"

namespace lockstep::plan {

// One tensor of a message.
struct MessagePart {
  TensorType type;
  uint64_t tag = 0;
  int send_buffer = -1;
  int recv_buffer = -1;
  int recv_after_task = -1;  // of the receiver: frees recv_buffer; -1 none
  // An earlier message and its part that used send_buffer; -1 none.
  int reuses_message = -1;
};

// Ranks are places in the pipeline, tasks are positions in their orders.
struct Message {
  int boundary = -1;
  int micro_batch = -1;
  bool is_gradient = false;
  int from = -1;
  int from_task = -1;  // makes it
  int to = -1;
  int to_task = -1;  // needs it
  int64_t at = 0;    // the moment
  std::vector<MessagePart> parts;
};

// When a stage has done its last task, and which of its rank's tasks that is.
struct StageEnd {
  int task = -1;
  int64_t at = 0;
};

struct Flow {
  Schedule schedule;
  std::vector<Message> messages;
  std::vector<int64_t> ends;  // when each rank has done its last task
  std::vector<StageEnd> stage_ends;
};

// InvalidArgument as Validate (shape.h) says.
absl::StatusOr<Flow> FlowOf(const PipelineSpec& spec, const Mesh& mesh);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_PIPELINE_FLOW_H_
