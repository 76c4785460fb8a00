// Blocking calls that every trainer needs: begin with equal parameters, average
// a metric, exchange objects, wait for each other.
//
//   auto world = session->Group({"data"});             // all ranks of the mesh
//   ...                                                // Seal or Connect
//   BroadcastParameters(*world, tensors);              // rank 0's values
//   auto sums = AllReduceScalars(*world, {loss, samples});
//
// All members call the same with the same number and types of tensors or
// values. A call runs on the group's own stream, behind what was started there,
// and returns when it is done.
//
// Threads: as AxisGroup.
// Errors:  InvalidArgument before anything moves, where a member can see it
//          alone; else those of AxisGroup and PendingCollective::Wait.

#ifndef LOCKSTEP_HOST_CALLS_H_
#define LOCKSTEP_HOST_CALLS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lockstep/axis_group.h"
#include "lockstep/dtype.h"
#include "lockstep/export.h"
#include "lockstep/tensor_type.h"

namespace lockstep {

// A tensor in the caller's memory; the name is for messages.
struct NamedTensor {
  std::string name;
  TensorType type;
  void* data = nullptr;
};

// All members get the root's values, in one transfer.
LOCKSTEP_EXPORT absl::Status BroadcastParameters(
    const AxisGroup& group, absl::Span<const NamedTensor> tensors,
    int root = 0);

// OK if all members have the same bits; moves 8 bytes for each tensor.
// FailedPrecondition names the first tensors that differ, and the ranks.
LOCKSTEP_EXPORT absl::Status CheckParametersEqual(
    const AxisGroup& group, absl::Span<const NamedTensor> tensors);

// The values reduced over all members, in f64.
LOCKSTEP_EXPORT absl::StatusOr<std::vector<double>> AllReduceScalars(
    const AxisGroup& group, absl::Span<const double> values,
    ReduceOp op = ReduceOp::kSum);

// The objects of all members, by index. They may have different sizes, up to
// 1 GiB together (ResourceExhausted on all members).
LOCKSTEP_EXPORT absl::StatusOr<std::vector<std::string>> AllGatherObjects(
    const AxisGroup& group, std::string_view object);

// Returns once all members have called it.
LOCKSTEP_EXPORT absl::Status Barrier(const AxisGroup& group);

}  // namespace lockstep

#endif  // LOCKSTEP_HOST_CALLS_H_
