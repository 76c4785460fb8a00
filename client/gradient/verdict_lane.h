// The owner of the verdict lane: it ends a step, once all other transfers are
// complete. Either the host decides by the reduced summaries (summary_lane.h),
// or the device by the records of all ranks (record_lane.h), as the plan says
// (plan/records.h).

#ifndef LOCKSTEP_CLIENT_GRADIENT_VERDICT_LANE_H_
#define LOCKSTEP_CLIENT_GRADIENT_VERDICT_LANE_H_

#include <memory>

#include "absl/status/status.h"
#include "client/executor/executor.h"
#include "client/gradient/pending.h"
#include "kernels/finite_check.h"

namespace lockstep::gradient {

class VerdictLane : public executor::LaneOwner {
 public:
  using Pending = std::shared_ptr<PendingVerdict::State>;

  // The accumulator of norms: this rank's (-1), or that of a leaf of the job.
  // Fixed.
  virtual kernels::FiniteCheck* norm(int leaf) = 0;
};

// The first error of a communicator, and its index.
inline absl::Status FirstError(const executor::Executor& executor,
                               int* communicator) {
  for (int c = 0; c < executor.communicators(); ++c) {
    if (executor.communicator(c) == nullptr) continue;
    absl::Status status = executor.communicator(c)->status();
    if (status.ok()) continue;
    *communicator = c;
    return status;
  }
  return absl::OkStatus();
}

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_VERDICT_LANE_H_
