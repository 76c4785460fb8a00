// The first copy of registered state that failed on this rank.
//
//   rank 1   Note("w", cudaMemcpyAsync: ...) ─▶ number() ┐
//   rank 0                                      number() ┴ all-reduce ─▶ Error,
//                                                          on all ranks
//
// A rank whose copy failed goes on with its part of the protocol, so that no
// rank waits for it; the ranks agree on the error at the end.
//
// Threads: one.

#ifndef LOCKSTEP_CLIENT_STATE_COPY_FAULTS_H_
#define LOCKSTEP_CLIENT_STATE_COPY_FAULTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "plan/state/state.h"

namespace lockstep::state {

class CopyFaults {
 public:
  // `tensors` must outlive it.
  CopyFaults(const std::vector<plan::StateTensor>& tensors, int rank)
      : tensors_(tensors), rank_(rank) {}

  // Keeps the first error. OK has no effect.
  void Note(size_t tensor, const absl::Status& status);

  // 0 without an error. The largest of all ranks is that of the lowest rank.
  uint64_t number() const { return number_; }

  // The error of the largest number: Internal names the tensor and the rank,
  // and on that rank the cause. OK for 0.
  absl::Status Error(uint64_t largest) const;

  // The own error instead of `status`, for a call that ended before the ranks
  // agreed on one.
  absl::Status Or(const absl::Status& status) const;

 private:
  const std::vector<plan::StateTensor>& tensors_;
  const int rank_;
  uint64_t number_ = 0;
  absl::Status cause_;
};

}  // namespace lockstep::state

#endif  // LOCKSTEP_CLIENT_STATE_COPY_FAULTS_H_
