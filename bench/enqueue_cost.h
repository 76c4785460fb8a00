// What the host pays to enqueue an all-reduce of few bytes.
//
//   raw       ncclAllReduce on a blocking communicator, call after call
//   polled    the same on a non-blocking one, as ours is, each polled until it
//             is queued: what can be aborted costs that much
//   call      AllReduce of this library: what the training thread pays, beside
//             raw
//   queued    the same, until the launch thread has queued the last, beside
//             polled
//
//   [64 calls]──waits──[64 calls]──waits──...     only the calls are timed
//
// Ranks: with one NCCL takes a short cut, a copy without its kernel, so a
// figure that says something is of two. Calls come in batches that a device's
// queue has room for, and between two the stream runs empty: else the host
// waits for the device, and the device's time is what is measured.
//
// Medians of the batches, in microseconds an operation.

#ifndef LOCKSTEP_BENCH_ENQUEUE_COST_H_
#define LOCKSTEP_BENCH_ENQUEUE_COST_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/transport/nccl/comm_state.h"

namespace lockstep::bench {

// A rank, which tells all ranks a line and hears theirs, in rank order.
struct EnqueuePlace {
  int rank = 0;
  int size = 1;
  std::function<std::vector<std::string>(const std::string& line)> exchange =
      [](const std::string& line) { return std::vector<std::string>{line}; };
};

struct EnqueueLoad {
  int batches = 50;
  int calls = 64;         // of a batch
  bool with_raw = false;  // the tables are real ones
};

struct EnqueueCost {
  double raw_us = 0;
  double polled_us = 0;
  double call_us = 0;
  double queued_us = 0;
};

// On every rank alike.
absl::StatusOr<EnqueueCost> MeasureEnqueue(
    const transport::nccl::Tables& tables, const EnqueuePlace& place,
    const EnqueueLoad& load);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_ENQUEUE_COST_H_
