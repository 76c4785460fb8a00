// What the checkpoints of a job need to know of it, as one rank sees it.
//
// Threads: values.

#ifndef LOCKSTEP_CLIENT_STATE_CHECKPOINT_JOB_H_
#define LOCKSTEP_CLIENT_STATE_CHECKPOINT_JOB_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lockstep/mesh.h"
#include "lockstep/tensor_type.h"
#include "plan/state/state.h"
#include "protocol/tensor_box.h"

namespace lockstep::state {

// A tensor of the job's state, whole.
struct JobTensor {
  std::string name;
  TensorType type;
};

// Elements in this rank's memory, dense and row-major at `data`. At least one.
struct StatePart {
  size_t tensor = 0;  // index in CheckpointJob::tensors
  TensorBox box;      // in the whole tensor
  void* data = nullptr;
};

struct CheckpointJob {
  std::string name;
  int64_t epoch = 0;  // of its members
  Mesh mesh;
  int rank = 0;
  std::vector<JobTensor> tensors;  // the same on all ranks
  // All that this rank holds, and what of it this rank writes: each element of
  // the state is written by one rank. In the order of tensors and of begins.
  std::vector<StatePart> held;
  std::vector<StatePart> written;
};

// A rank of a job, with the parts that the plan gives it (plan/state/).
// `memory`: of each tensor, laid out as plan::BoxesOf says; null where the rank
// holds no elements. InvalidArgument names a tensor that files cannot have, by
// its dtype or name.
absl::StatusOr<CheckpointJob> WithPlannedState(
    CheckpointJob rank, absl::Span<const plan::StateTensor> tensors,
    absl::Span<void* const> memory);

uint64_t BytesOf(const CheckpointJob& job, const StatePart& part);

}  // namespace lockstep::state

#endif  // LOCKSTEP_CLIENT_STATE_CHECKPOINT_JOB_H_
