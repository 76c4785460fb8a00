// What the host pays to enqueue an all-reduce of few bytes on one rank.
//
//   raw       ncclAllReduce on a blocking communicator, call after call
//   polled    the same on a non-blocking one, as ours is, each polled until it
//             is queued: what can be aborted costs that much
//   call      AllReduce of this library: what the training thread pays, beside
//             raw
//   queued    the same, until the launch thread has queued the last, beside
//             polled
//
// Medians of rounds that take turns, in microseconds an operation.

#ifndef LOCKSTEP_BENCH_ENQUEUE_COST_H_
#define LOCKSTEP_BENCH_ENQUEUE_COST_H_

#include "absl/status/statusor.h"
#include "client/transport/nccl/member.h"

namespace lockstep::bench {

struct EnqueueCost {
  double raw_us = 0;
  double polled_us = 0;
  double call_us = 0;
  double queued_us = 0;
};

// `with_raw`: the tables are real ones.
absl::StatusOr<EnqueueCost> MeasureEnqueue(
    const transport::nccl::Tables& tables, int calls, bool with_raw);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_BENCH_ENQUEUE_COST_H_
