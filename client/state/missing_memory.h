// A tensor of a rank as one number: the largest of all ranks, found by an
// all-reduce, gives every rank the same error.

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

// At least 1. Lower ranks have larger numbers.
inline uint64_t TensorOfRank(size_t tensor, int rank) {
  return static_cast<uint64_t>(INT32_MAX - rank) << 32 | tensor;
}
inline int RankOf(uint64_t number) {
  return INT32_MAX - static_cast<int>(number >> 32);
}
inline size_t TensorOf(uint64_t number) { return number & UINT32_MAX; }

// The error of a rank that lacks memory of a tensor, `largest`: InvalidArgument
// names both. OK for 0.
inline absl::Status MissingMemoryError(
    uint64_t largest, const std::vector<plan::StateTensor>& tensors) {
  if (largest == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(checkpoint::TensorText(tensors[TensorOf(largest)].name),
                   " of rank ", RankOf(largest), " has no memory"));
}

}  // namespace lockstep::state

#endif  // LOCKSTEP_CLIENT_STATE_MISSING_MEMORY_H_
