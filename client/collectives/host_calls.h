// Blocking calls on host memory that every trainer needs: begin with equal
// parameters, average a metric, exchange objects, wait for each other.
//
//   BroadcastParameters(group, tensors, stream);        // rank 0's values
//   auto loss = AllReduceScalars(group, {sum, count}, ReduceOp::kSum, stream);
//
// All members call the same with the same number and types of tensors or
// values. Each call waits for the stream, also for earlier work on it.
//
// Threads: as AxisGroup.
// Errors:  InvalidArgument before anything moves, where a member can see it
//          alone; else the stream's (axis_group.h).

#ifndef LOCKSTEP_CLIENT_COLLECTIVES_HOST_CALLS_H_
#define LOCKSTEP_CLIENT_COLLECTIVES_HOST_CALLS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/collectives/axis_group.h"
#include "lockstep/stream.h"
#include "lockstep/tensor_type.h"

namespace lockstep::collectives {

// A tensor in the caller's memory, for messages with its name.
struct HostTensor {
  std::string name;
  TensorType type;
  void* data = nullptr;
};

// All members get the root's values, in one transfer.
absl::Status BroadcastParameters(const AxisGroup& group,
                                 absl::Span<const HostTensor> tensors,
                                 HostStream& stream, int root = 0);

// OK if all members have the same bits; moves 8 bytes for each tensor.
// FailedPrecondition names the first tensors that differ, and the ranks.
absl::Status CheckParametersEqual(const AxisGroup& group,
                                  absl::Span<const HostTensor> tensors,
                                  HostStream& stream);

// The values reduced over all members, in f64.
absl::StatusOr<std::vector<double>> AllReduceScalars(
    const AxisGroup& group, absl::Span<const double> values, ReduceOp op,
    HostStream& stream);

// The objects of all members, by index. They may have different sizes, up to
// 1 GiB together (ResourceExhausted on all members).
absl::StatusOr<std::vector<std::string>> AllGatherObjects(
    const AxisGroup& group, std::string_view object, HostStream& stream);

// Returns once all members have called it.
absl::Status Barrier(const AxisGroup& group, HostStream& stream);

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_CLIENT_COLLECTIVES_HOST_CALLS_H_
