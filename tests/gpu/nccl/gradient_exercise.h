// One rank's gradient synchronisation in device memory: the engine over the
// real adapter, eagerly and as a captured graph, with checks of the weights
// after every step. It works with any tables, as exercise.h.
//
//   [batch, pinned] ─copy─▶ [views in buckets] ─all-reduce─▶ ─ gate ─▶
//   [weights]
//    the "backward pass"                                     CommitUnpack

#ifndef LOCKSTEP_TESTS_GPU_NCCL_GRADIENT_EXERCISE_H_
#define LOCKSTEP_TESTS_GPU_NCCL_GRADIENT_EXERCISE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tests/gpu/nccl/exercise.h"

namespace lockstep::gpu {

// The model and the number of steps of each form.
struct GradientShape {
  int parameters = 24;
  size_t elements = 20'000;  // of a parameter, on average
  int64_t bucket_bytes = 512 << 10;
  int steps = 6;
  int run_ahead = 0;
  bool replays = false;  // steps in a graph that the program launches
};

// Trains with blocking steps, with steps on a stream that the host does not
// wait for, and with captured steps; or, if it replays, with launches of its
// own graph between blocking steps. Returns what each costs, for people.
absl::StatusOr<std::string> SynchroniseGradients(
    const transport::nccl::Tables& tables, const Place& place,
    const GradientShape& shape);

}  // namespace lockstep::gpu

#endif  // LOCKSTEP_TESTS_GPU_NCCL_GRADIENT_EXERCISE_H_
