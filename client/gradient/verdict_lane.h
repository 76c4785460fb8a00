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
#include "client/transport/device_context.h"
#include "kernels/finite_check.h"
#include "plan/ir.h"

namespace lockstep::gradient {

class VerdictLane : public executor::LaneOwner {
 public:
  using Pending = std::shared_ptr<PendingVerdict::State>;

  // The accumulator of norms: this rank's (-1), or that of a leaf of the job.
  // Fixed.
  virtual kernels::FiniteCheck* norm(int leaf) = 0;

 protected:
  using KernelQueue = transport::DeviceContext::KernelQueue;

 private:
  // Before the transfers: what this rank says of the step.
  virtual absl::Status Write(KernelQueue& kernel_queue) = 0;
  // Behind them: what all say.
  virtual absl::Status Read(KernelQueue& kernel_queue) = 0;

  absl::Status Apply(KernelQueue& kernel_queue, const plan::Transfer& transfer,
                     executor::Side side, bool) final {
    const bool is_before = side == executor::Side::kBefore;
    for (const plan::LocalOp& op :
         is_before ? transfer.before : transfer.then) {
      absl::Status applied;
      if (op.kind == plan::LocalKind::kWriteSummary) {
        applied = Write(kernel_queue);
      } else if (op.kind == plan::LocalKind::kReadSummary) {
        applied = Read(kernel_queue);
      }
      if (!applied.ok()) return applied;
    }
    return absl::OkStatus();
  }
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_VERDICT_LANE_H_
