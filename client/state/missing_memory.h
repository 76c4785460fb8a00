// Memory of registered state that a rank lacks, as one number: the largest of
// all ranks, found by an all-reduce, gives every rank the same error.

#ifndef LOCKSTEP_CLIENT_STATE_MISSING_MEMORY_H_
#define LOCKSTEP_CLIENT_STATE_MISSING_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/checkpoint/safetensors.h"
#include "plan/state/state.h"

namespace lockstep::state {

// The number of a rank that lacks memory of this tensor; at least 1. Lower
// ranks have larger numbers.
inline uint64_t MissingMemory(size_t tensor, int rank) {
  return static_cast<uint64_t>(INT32_MAX - rank) << 32 | tensor;
}

// The error of the largest number: InvalidArgument names the rank and the
// tensor. OK for 0.
inline absl::Status MissingMemoryError(
    uint64_t largest, const std::vector<plan::StateTensor>& tensors) {
  if (largest == 0) return absl::OkStatus();
  const int rank = INT32_MAX - static_cast<int>(largest >> 32);
  return absl::InvalidArgumentError(
      absl::StrCat(checkpoint::TensorText(tensors[largest & UINT32_MAX].name),
                   " of rank ", rank, " has no memory"));
}

}  // namespace lockstep::state

#endif  // LOCKSTEP_CLIENT_STATE_MISSING_MEMORY_H_
