// Pipeline schedules: the order of the passes that each rank computes.
//
// S ranks in a row, M micro-batches, V virtual stages per rank. F is a forward
// pass, B a backward pass, I and W its two halves (the gradients of the input
// and of the weights). Time runs to the right:
//
//   gpipe, S=2, M=3      rank 0  F0 F1 F2 .. .. .. B0 B1 B2
//                        rank 1  .. F0 F1 F2 B0 B1 B2
//   1f1b                 rank 0  F0 F1 .. B0 F2 B1 .. B2
//                        rank 1  .. F0 B0 F1 B1 F2 B2
//   zb-h1                rank 0  F0 F1 I0 W0 F2 I1 W1 I2 W2
//                        rank 1  .. F0 I0 F1 I1 W0 F2 I2 W1 W2
//
//   gpipe        all forward, all backward
//   1f1b         one forward for each later rank, then one forward and one
//                backward alternately: at most S - rank activations are stored
//   interleaved  the same over V virtual stages, in rounds of S micro-batches
//                (Megatron-LM, arXiv 2104.04473)
//   zb-h1        1F1B with weight gradients delayed, more on later ranks, to
//                fill the end (arXiv 2401.10241)
//   zb-v         two virtual stages, the second in reverse order (the same)
//
// Pure functions: the same shape gives the same schedule on every machine.

#ifndef LOCKSTEP_PLAN_SCHEDULE_SCHEDULE_H_
#define LOCKSTEP_PLAN_SCHEDULE_SCHEDULE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/pipeline_schedule.h"

namespace lockstep::plan {

// The values are part of the wire format: never renumber.
enum class Work : uint8_t {
  kForward = 1,
  kBackward = 2,        // both gradients
  kBackwardInput = 3,   // of the input: the stage before waits for it
  kBackwardWeight = 4,  // of the weights: no other stage waits for it
};

// "forward", "backward", "input gradient", "weight gradient"; "?" for none.
std::string_view Name(Work work);

// Whether the stage before needs its result.
constexpr bool GivesInputGradient(Work work) {
  return work == Work::kBackward || work == Work::kBackwardInput;
}
// Whether it is the stage's last pass of the micro-batch.
constexpr bool EndsMicroBatch(Work work) {
  return work == Work::kBackward || work == Work::kBackwardWeight;
}

struct Action {
  Work work = Work::kForward;
  int stage = 0;  // of the model: 0 to ranks * virtual_stages - 1
  int micro_batch = 0;
  bool operator==(const Action&) const = default;
};

struct ScheduleShape {
  PipelineSchedule kind = PipelineSchedule::kOneFOneB;
  int ranks = 1;           // S
  int micro_batches = 1;   // M
  int virtual_stages = 1;  // V
  bool operator==(const ScheduleShape&) const = default;

  int stages() const { return ranks * virtual_stages; }
};

// The rank of a stage, among S ranks: round-robin; for zb-v up, then down.
int RankOf(const ScheduleShape& shape, int stage);
// The rank's chunk-th stage, the earliest in the model first.
int StageOf(const ScheduleShape& shape, int rank, int chunk);

struct Schedule {
  ScheduleShape shape;
  std::vector<std::vector<Action>> ranks;
};

// Every stage has each micro-batch once, forward before backward. The orders of
// all ranks together have no deadlock.
//
// InvalidArgument outside of the domain, which the message names:
//   all          S, M, V of at least 1, S * V * M of at most 2^20
//   gpipe, 1f1b  V = 1
//   interleaved  V >= 2, M a multiple of S
//   zb-h1        V = 1, M >= S
//   zb-v         V = 2, M >= S
absl::StatusOr<Schedule> MakeSchedule(const ScheduleShape& shape);

// The error of MakeSchedule, without making the schedule.
absl::Status ValidateShape(const ScheduleShape& shape);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_SCHEDULE_SCHEDULE_H_
