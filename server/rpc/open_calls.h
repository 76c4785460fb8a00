// Counts open streams and waits until there are none.
//
// gRPC's own shutdown also waits until every peer has closed its connection,
// which a stopped or stuck worker never does.
//
// Threads: all methods from any thread.

#ifndef LOCKSTEP_SERVER_RPC_OPEN_CALLS_H_
#define LOCKSTEP_SERVER_RPC_OPEN_CALLS_H_

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace lockstep::rpc {

class OpenCalls {
 public:
  // Counts one call until its end; a member of its reactor. A reactor with
  // other owners may outlive the server, so it calls End in OnDone.
  class CountedCall {
   public:
    explicit CountedCall(OpenCalls* calls) : calls_(calls) { calls_->Add(1); }
    ~CountedCall() { End(); }
    CountedCall(const CountedCall&) = delete;
    CountedCall& operator=(const CountedCall&) = delete;

    void End() {
      if (calls_ != nullptr) std::exchange(calls_, nullptr)->Add(-1);
    }

   private:
    OpenCalls* calls_;
  };

  // False if some are still open after `patience`.
  bool AwaitNone(absl::Duration timeout);

 private:
  void Add(int change) {
    MutexLock lock(&mutex_);
    count_ += change;
    if (count_ == 0) none_.NotifyAll();
  }

  Mutex mutex_;
  CondVar none_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_RPC_OPEN_CALLS_H_
