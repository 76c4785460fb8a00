// The interface to the owner of a lane's memory: gradient/ for gradients and
// the verdict, pipeline/ for activations.

#ifndef LOCKSTEP_CLIENT_EXECUTOR_LANE_OWNER_H_
#define LOCKSTEP_CLIENT_EXECUTOR_LANE_OWNER_H_

#include <vector>

#include "absl/status/status.h"
#include "client/executor/enqueue.h"
#include "client/transport/common/collective_op.h"
#include "client/transport/device_context.h"
#include "plan/ir.h"

namespace lockstep::executor {

// Local operations run before a transfer, or after it.
enum class Side { kBefore, kThen };

// Threads: OperandsOf on the thread that launches the transfer; for a queued
//          lane once, when its program is made. Everything else on the thread
//          of the queue or the stream that runs the lane.
class LaneOwner {
 public:
  virtual ~LaneOwner() = default;

  // The memory that the transfer reads and writes.
  virtual Operands OperandsOf(plan::TransferRef ref,
                              const plan::Transfer& transfer) = 0;

  // --- Queued lanes only ---

  // The norms among transfer.then that an all-reduce computes itself, while the
  // data is in cache (extended_collectives.h); empty: none. Called when the
  // program is made.
  virtual std::vector<transport::CheckedPart> ChecksOf(const plan::Transfer&) {
    return {};
  }

  // The divisor of the sum of a mean, if it is not the communicator's size: the
  // number of ranks that announced the gradient (plan/ir.h), known when the
  // transfer is launched. Else 0.
  virtual int DivisorOf(const plan::Transfer&) { return 0; }

  // Whether the owner multiplies the sum of a mean by 1 / ranks itself, in the
  // pass over the result that computes the norms among transfer.then. The
  // transfer is then a plain sum. Called when the program is made; not for
  // transfers with ChecksOf.
  virtual bool ScalesMean(const plan::Transfer&) { return false; }

  // Runs the transfer's local operations of one side, in order; skips norms if
  // `has_norms`, since the transfer has computed them. On an error of kBefore
  // the transfer is not launched, and Failed gets the error.
  virtual absl::Status Apply(transport::DeviceContext::KernelQueue&,
                             const plan::Transfer&, Side, bool /*has_norms*/) {
    return absl::OkStatus();
  }

  // Whether the operations behind the transfer run although its communicator
  // has failed.
  virtual bool RunsAfterFailure(const plan::Transfer&) { return false; }

  // --- All lanes ---

  // The transfer failed on a communicator of the plan or, with -1, on this rank
  // alone. Called for each transfer that fails.
  virtual void Failed(const plan::Transfer& transfer, int communicator,
                      const absl::Status& error) = 0;
};

}  // namespace lockstep::executor

#endif  // LOCKSTEP_CLIENT_EXECUTOR_LANE_OWNER_H_
