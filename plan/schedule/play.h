// Computes when each action of a schedule runs, if tasks take given times and
// messages take none, and the share of the ranks' time that is idle (the
// bubble).
//
//   bubble = 1 - busy / (S x makespan)
//
//   rank 0  F0 F1 .. B0 F2 B1 .. B2     S = 2, M = 3: 12 of 16 steps busy,
//   rank 1  .. F0 B0 F1 B1 F2 B2 ..     bubble 25 %
//
// Pure functions.

#ifndef LOCKSTEP_PLAN_SCHEDULE_PLAY_H_
#define LOCKSTEP_PLAN_SCHEDULE_PLAY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "plan/schedule/schedule.h"

namespace lockstep::plan {

// Durations of one stage, the same for all stages, in any unit; each at least
// 1.
struct WorkTimes {
  int64_t forward = 1;
  int64_t backward_input = 1;
  int64_t backward_weight = 1;

  int64_t Of(Work work) const;
};

struct Moments {
  int64_t begin = 0;
  int64_t end = 0;
};

struct PlayedSchedule {
  std::vector<std::vector<Moments>> ranks;  // of each action
  int64_t makespan = 0;
  double bubble = 0;
};

// FailedPrecondition if the orders deadlock, which those of MakeSchedule never
// do: names a rank and the action that it waits with.
absl::StatusOr<PlayedSchedule> Play(const Schedule& schedule,
                                    const WorkTimes& times);

// The bubble proven by the schedule's authors, for a shape in its domain:
//
//   gpipe, 1f1b   (S-1) / (M+S-1)
//   interleaved   (S-1) / (V M+S-1)
//   zb-h1         (S-1)(F+B-W) / (M (F+B+W) + (S-1)(F+B-W)), if W <= F, B
//   zb-v          (S-1) / (6 M+S-1), if F = B = W
//
// nullopt if nothing is proven for these times.
std::optional<double> ProvenBubble(const ScheduleShape& shape,
                                   const WorkTimes& times);

}  // namespace lockstep::plan

#endif  // LOCKSTEP_PLAN_SCHEDULE_PLAY_H_
