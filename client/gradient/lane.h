// The gradient lane: launches buckets in the plan's order as they become ready.
//
//   ready:     bucket 1     bucket 0            bucket 2   Close
//   launched:               0, 1                2          verdict
//
// All ranks launch in the same order, whatever order their gradients come in: a
// bucket that is ready early waits for those before it, and for transfers of
// other lanes that the plan puts before it. The last launch of a step is the
// verdict's; after it the lane is ready for the next step.
//
// Threads: Ready, Close and Look from any thread. `launch` and `may_launch` are
//          called under the lane's lock, in order, and must only enqueue.

#ifndef LOCKSTEP_CLIENT_GRADIENT_LANE_H_
#define LOCKSTEP_CLIENT_GRADIENT_LANE_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"

namespace lockstep::gradient {

class Lane {
 public:
  // pending[i]: gradients that item i waits for. launch(i) starts item i, and
  // launch(pending.size()) the verdict. may_launch(i) is asked once item i has
  // its gradients: false if other lanes are not that far; null: always.
  Lane(std::vector<int> pending, std::function<void(int)> launch,
       std::function<bool(int)> may_launch = nullptr);

  // One of the gradients that `item` waits for is in its bucket.
  // FailedPrecondition if the item waits for none: the step before is not over.
  absl::Status Ready(int item);

  // The step has all its gradients once the items have: launches the verdict
  // behind them. Every Close needs all items to become ready.
  absl::Status Close();

  // Other lanes have gone on: asks again what may be launched.
  void Look();

  // How many of this step's items are launched: the first ones.
  int launched();

  // The next step's items; between a verdict and the first Ready after it.
  void Begin(std::vector<int> pending);

  // The step begins anew: what was launched of it never ran (a capture that was
  // given up).
  void Restart();

 private:
  void LaunchWhatIsReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool MayLaunch(size_t item) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<void(int)> launch_;
  const std::function<bool(int)> may_launch_;

  Mutex mutex_;
  std::vector<int> pending_at_start_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> pending_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_LANE_H_
