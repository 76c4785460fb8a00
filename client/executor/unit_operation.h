// A unit of a queued lane as an operation of the comm queue:
//
//   Before        local operations before its transfers
//   Communicate   its transfers, as one
//   Then          local operations after them, or reporting of the failure

#ifndef LOCKSTEP_CLIENT_EXECUTOR_UNIT_OPERATION_H_
#define LOCKSTEP_CLIENT_EXECUTOR_UNIT_OPERATION_H_

#include <vector>

#include "client/executor/enqueue.h"
#include "client/executor/lane_owner.h"
#include "client/transport/device_context.h"

namespace lockstep::executor {

class UnitOperation final : public transport::DeviceContext::Operation {
 public:
  using KernelQueue = transport::DeviceContext::KernelQueue;

  // The transfers of one unit; the first of them is `first`.
  UnitOperation(plan::TransferRef first,
                std::vector<const plan::Transfer*> unit, LaneOwner* owner,
                Communicator* communicator);

  absl::Status Before(KernelQueue& kernel_queue) override;
  absl::Status Communicate(Stream& stream) override;
  void Then(KernelQueue& kernel_queue, const absl::Status& launched) override;
  bool on_side_stream() const override { return is_aside_; }

 private:
  absl::Status Apply(KernelQueue& kernel_queue, Side side);

  LaneOwner& owner_;
  Communicator& communicator_;
  std::vector<PlannedTransfer> planned_;
  std::vector<transport::CheckedPart> checks_;
  bool is_aside_ = false;
  bool is_sent_ = false;  // the communicator has accepted the last launch
};

}  // namespace lockstep::executor

#endif  // LOCKSTEP_CLIENT_EXECUTOR_UNIT_OPERATION_H_
