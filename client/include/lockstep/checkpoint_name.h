// The name of a checkpoint: which step it has, and which attempt to save it.

#ifndef LOCKSTEP_CHECKPOINT_NAME_H_
#define LOCKSTEP_CHECKPOINT_NAME_H_

#include <compare>
#include <cstdint>
#include <tuple>

namespace lockstep {

// Later attempts are greater. Their numbers rise over all saves in a directory,
// so a job that went back to step 20 and then saved step 25 goes on from that,
// and not from step 30 of before.
struct CheckpointName {
  int64_t step = 0;
  int64_t epoch = 0;    // of the job's members that saved it
  int64_t attempt = 0;  // counts the saves in a directory from 1
  bool operator==(const CheckpointName&) const = default;
  auto operator<=>(const CheckpointName& other) const {
    return std::tie(attempt, epoch, step) <=>
           std::tie(other.attempt, other.epoch, other.step);
  }
};

}  // namespace lockstep

#endif  // LOCKSTEP_CHECKPOINT_NAME_H_
