// All small schedules.

#ifndef LOCKSTEP_TESTS_PLAN_SCHEDULE_SHAPES_H_
#define LOCKSTEP_TESTS_PLAN_SCHEDULE_SHAPES_H_

#include <ostream>
#include <vector>

#include "plan/schedule/play.h"
#include "plan/schedule/schedule.h"

namespace lockstep::plan {

inline void PrintTo(const ScheduleShape& shape, std::ostream* out) {
  *out << Name(shape.kind) << " S=" << shape.ranks
       << " M=" << shape.micro_batches << " V=" << shape.virtual_stages;
}

// All valid shapes up to these sizes.
inline std::vector<ScheduleShape> AllShapes(int ranks_max = 8,
                                            int micro_batches_max = 16,
                                            int virtual_stages_max = 4) {
  std::vector<ScheduleShape> shapes;
  for (const PipelineSchedule kind : kAllPipelineSchedules) {
    for (int s = 1; s <= ranks_max; ++s) {
      for (int m = 1; m <= micro_batches_max; ++m) {
        for (int v = 1; v <= virtual_stages_max; ++v) {
          const ScheduleShape shape{kind, s, m, v};
          if (ValidateShape(shape).ok()) shapes.push_back(shape);
        }
      }
    }
  }
  return shapes;
}

inline std::vector<WorkTimes> SomeTimes() {
  std::vector<WorkTimes> times;
  for (int64_t f = 1; f <= 4; ++f) {
    for (int64_t b = 1; b <= 4; ++b) {
      for (int64_t w = 1; w <= 4; ++w) times.push_back({f, b, w});
    }
  }
  return times;
}

}  // namespace lockstep::plan

#endif  // LOCKSTEP_TESTS_PLAN_SCHEDULE_SHAPES_H_
