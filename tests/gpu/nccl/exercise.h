// One rank's operations with the real adapter on a real GPU, with checks of the
// results. It works with any tables: a test over the fake checks the exercise
// itself, on any machine.
//
// It tests function, not speed: at most 1 MiB for each operation, because ranks
// may share one device.

#ifndef LOCKSTEP_TESTS_GPU_NCCL_EXERCISE_H_
#define LOCKSTEP_TESTS_GPU_NCCL_EXERCISE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/transport/nccl/comm_state.h"

namespace lockstep::gpu {

// A rank and its means to exchange a line with all other ranks.
struct Place {
  int rank = 0;
  int size = 1;
  std::function<std::vector<std::string>(const std::string& line)> exchange;
};

// Every operation, on elements whose result is exact.
absl::Status MoveEverything(const transport::nccl::Tables& tables,
                            const Place& place);

// Reductions in buffers that are registered on all ranks. Returns the kind of
// registration, for people.
absl::StatusOr<std::string> MoveThroughWindows(
    const transport::nccl::Tables& tables, const Place& place);

// An operation and a host function after it, captured into a CUDA graph and
// launched with three inputs; then the communicators end before the graph.
absl::Status ReplayAGraph(const transport::nccl::Tables& tables,
                          const Place& place);

// Repeats `times` times: connects, waits in an all-reduce for ranks that never
// arrive, and aborts. Returns, on the waiting rank 0, the durations from Abort
// until the stream continued. The process can connect again.
absl::StatusOr<std::vector<absl::Duration>> AbortWhatIsWedged(
    const transport::nccl::Tables& tables, const Place& place, int times);

}  // namespace lockstep::gpu

#endif  // LOCKSTEP_TESTS_GPU_NCCL_EXERCISE_H_
