// The messages of a schedule, in the one order in which all ranks launch them.
//
//   rank 0  F0 ─▶ F1 ─▶           a message is ordered by the end of its task
//   rank 1     F0 B0 ─▶ F1 B1     in a simulation in which sending takes no
//                                 time: 0>1 F0, 0>1 F1, 0<1 B0, ...
//
// Messages of equal time: gradients first, those of higher ranks before those
// of lower ranks; then activations, lower ranks first.
//
// In a plan with this order, every wait, also of tasks and buffers, is for
// something earlier in the order. So there is no deadlock, even if a rank can
// run only one transfer at a time.

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
  int recv_after_task = -1;  // receiver's task that frees recv_buffer; or -1
  // The earlier message that used send_buffer; -1: none.
  int reuses_message = -1;
};

// Ranks are positions in the pipeline, tasks are positions in their orders.
struct Message {
  int boundary = -1;
  int micro_batch = -1;
  bool is_gradient = false;
  int from = -1;
  int from_task = -1;  // produces it
  int to = -1;
  int to_task = -1;  // consumes it
  int64_t at = 0;    // time
  std::vector<MessagePart> parts;
};

// When a stage ends its last task, and the position of that task on its rank.
struct StageEnd {
  int task = -1;
  int64_t at = 0;
};

struct Flow {
  Schedule schedule;
  std::vector<Message> messages;
  std::vector<int64_t> ends;  // when each rank ends its last task
  std::vector<StageEnd> stage_ends;
};

// InvalidArgument: as Validate in plan/schedule/pipeline_shape.h.
absl::StatusOr<Flow> FlowOf(const PipelineSpec& spec, const Mesh& mesh);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_PIPELINE_FLOW_H_
