// Threads that end communicators: NCCL waits for the device in an abort and in
// a destroy.
//
//   Abort({a, b})  ─▶ ls-reclaim  ncclGroupStart
//                                 ncclCommAbort a, b: their flags are set, and
//                                   calls in progress and kernels return
//                                 wait for those calls, destroy graphs
//                                 ncclGroupEnd: frees a and b
//   Destroy(c)     ─▶ ls-reclaim  ncclCommFinalize c, ncclCommDestroy c
//
// Each ending has a thread of its own. The device may wait for a peer in
// another communicator, whose abort must not stand behind this one.
//
// Threads: any. The destructor waits for the endings, at most kPatience: a
//          thread that NCCL does not return to is left to the end of the
//          process.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_RECLAIMER_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_RECLAIMER_H_

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/transport/nccl/capture_state.h"
#include "client/transport/nccl/comm_state.h"

namespace lockstep::transport::nccl {

class Reclaimer {
 public:
  static constexpr absl::Duration kPatience = absl::Seconds(10);

  // A communicator that only this ending uses from now on, and its state, which
  // it keeps alive.
  struct ReclaimedComm {
    std::shared_ptr<CommState> member;
    NcclComm comm;
  };

  explicit Reclaimer(const Tables& tables) : tables_(tables) {}
  ~Reclaimer();
  Reclaimer(const Reclaimer&) = delete;
  Reclaimer& operator=(const Reclaimer&) = delete;

  // In one NCCL group, in this order: kernels that wait for a lost rank occupy
  // the device, so that one of several could not end alone. Errors are ignored:
  // the members have failed already. Does not block.
  void Abort(std::vector<ReclaimedComm> endings,
             std::shared_ptr<GraphList> graphs);
  // For a communicator that nothing uses and whose operations have run. Waits
  // until NCCL has finalized it; if that fails or takes longer than `patience`,
  // because a peer is lost, it is aborted.
  void Destroy(const ReclaimedComm& ending, absl::Duration patience);

 private:
  struct Reclaim {
    std::thread thread;
    std::shared_ptr<bool> over;  // guarded by state_->mutex
  };
  // Shared with threads that are left behind.
  struct ReclaimState {
    Mutex mutex;
    CondVar changed;
  };

  void Run(std::function<void()> work);
  // Joins the threads that have ended; returns whether all have.
  bool JoinEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);

  const Tables tables_;
  const std::shared_ptr<ReclaimState> state_ = std::make_shared<ReclaimState>();
  std::vector<Reclaim> tasks_ ABSL_GUARDED_BY(state_->mutex);
};

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_RECLAIMER_H_
