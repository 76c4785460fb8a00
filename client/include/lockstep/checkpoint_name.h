// The name of a checkpoint: which step it has, and which attempt to save it.

#ifndef LOCKSTEP_CHECKPOINT_NAME_H_
#define LOCKSTEP_CHECKPOINT_NAME_H_

#include <compare>
#include <cstdint>

namespace lockstep {

// Later steps are greater; of one step, later epochs and attempts are.
struct CheckpointName {
  int64_t step = 0;
  int64_t epoch = 0;    // of the job's members that saved it
  int64_t attempt = 0;  // to save a step
  auto operator<=>(const CheckpointName&) const = default;
};

}  // namespace lockstep

#endif  // LOCKSTEP_CHECKPOINT_NAME_H_
