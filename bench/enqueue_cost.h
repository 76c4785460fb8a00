// The host cost of enqueuing an all-reduce of a few bytes.
//
//   raw       ncclAllReduce, call after call: what NCCL costs
//   call      AllReduce of this library: when it returns, the operation is on
//             the device
//
//   [64 calls]──waits──[64 calls]──waits──...     only the calls are timed
//
// Ranks: with one rank NCCL copies without running its kernel, so meaningful
// figures need two. A batch of calls fits into the device's queue, and the
// stream is drained between batches. Otherwise the host would wait for the
// device, and the measurement would be the device's time.
//
// Medians over the batches, in microseconds per operation.

#ifndef LOCKSTEP_BENCH_ENQUEUE_COST_H_
#define LOCKSTEP_BENCH_ENQUEUE_COST_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/transport/nccl/comm_state.h"

namespace lockstep::bench {

// A rank. `exchange` sends a line to all ranks and returns their lines, in rank
// order.
struct EnqueuePlace {
  int rank = 0;
  int size = 1;
  std::function<std::vector<std::string>(const std::string& line)> exchange =
      [](const std::string& line) { return std::vector<std::string>{line}; };
};

struct EnqueueLoad {
  int batches = 50;
  int calls = 64;         // per batch
  bool with_raw = false;  // the interfaces are real, not fakes
};

struct EnqueueCost {
  double raw_us = 0;  // NCCL's own call
  double call_us = 0;
};

// Collective: every rank passes the same load.
absl::StatusOr<EnqueueCost> MeasureEnqueue(
    const transport::nccl::Tables& tables, const EnqueuePlace& place,
    const EnqueueLoad& load);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_ENQUEUE_COST_H_
