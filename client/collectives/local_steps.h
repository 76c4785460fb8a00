// Runs the steps of a lowered collective that stay on this rank.

#ifndef LOCKSTEP_CLIENT_COLLECTIVES_LOCAL_STEPS_H_
#define LOCKSTEP_CLIENT_COLLECTIVES_LOCAL_STEPS_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "client/collectives/lowered.h"
#include "kernels/local_step.h"

namespace lockstep::collectives {

// The memory of one call.
struct CallMemory {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::byte* scratch = nullptr;

  const void* Read(const BufferRef& ref) const;
  void* Write(const BufferRef& ref) const;  // not of inputs
};

// `step`, which is no call of a communicator, on the memory of a call, for
// kernels of any kind of memory. `fault`: of steps for which HasIndices.
kernels::LocalStep LocalStepOf(const Step& step, const CallMemory& memory,
                               kernels::IndexFault* fault);

// Whether the step reads indices from memory, which may be no members.
bool HasIndices(const Step& step);

// InvalidArgument if a step of a group of `size` has found an index that no
// member has.
absl::Status StatusOf(const kernels::IndexFault& fault, int size);

// On the host. InvalidArgument for an index of pgather that no member has.
absl::Status RunLocalStep(const Step& step, const CallMemory& memory);

bool IsLocal(const Step& step);

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_CLIENT_COLLECTIVES_LOCAL_STEPS_H_
