// One rank's recovery and comparison of state with the real adapter, as
// exercise.h.

#ifndef LOCKSTEP_TESTS_GPU_NCCL_STATE_EXERCISE_H_
#define LOCKSTEP_TESTS_GPU_NCCL_STATE_EXERCISE_H_

#include "absl/status/status.h"
#include "tests/gpu/nccl/exercise.h"

namespace lockstep::gpu {

// Rank 0 loses a tensor on the device, in memory of CUDA's, and one on the
// host, and receives both from the other ranks. With three ranks or more a
// flipped bit of the last rank is found, too. DataLoss: what was recovered is
// not what was lost.
absl::Status RecoverState(const transport::nccl::Tables& tables,
                          const Place& place);

}  // namespace lockstep::gpu

#endif  // LOCKSTEP_TESTS_GPU_NCCL_STATE_EXERCISE_H_
