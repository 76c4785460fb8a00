// What one rank does with the real adapter on a real GPU, and how it sees that
// it was right. It works over any tables: over the fake the exercise itself is
// tested, on any machine.
//
// Function, not speed: at most 1 MiB an operation, because ranks may share one
// device.

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

// A rank among others, whom it can tell a line, and who all tell theirs.
struct Place {
  int rank = 0;
  int size = 1;
  std::function<std::vector<std::string>(const std::string& line)> exchange;
};

// Every operation, on elements whose result is exact.
absl::Status MoveEverything(const transport::nccl::Tables& tables,
                            const Place& place);

// Reductions in buffers that all ranks know of; in what way, for people.
absl::StatusOr<std::string> MoveThroughWindows(
    const transport::nccl::Tables& tables, const Place& place);

// An operation and a host's part behind it, captured into a CUDA graph and
// launched with three inputs; then the communicators end while the graph lives.
absl::Status ReplayAGraph(const transport::nccl::Tables& tables,
                          const Place& place);

// `times` over: connects, waits in an all-reduce for ranks that never come, and
// aborts. How long the aborts took, until the stream ran on; on rank 0, who
// waits. The process lives and connects again.
absl::StatusOr<std::vector<absl::Duration>> AbortWhatIsWedged(
    const transport::nccl::Tables& tables, const Place& place, int times);

}  // namespace lockstep::gpu

#endif  // LOCKSTEP_TESTS_GPU_NCCL_EXERCISE_H_
