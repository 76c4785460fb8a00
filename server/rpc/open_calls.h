// How many streams are open, and when there are none left.
//
// gRPC's own shutdown also waits for every connection to be closed by the other
// side, which a worker that is stopped or stuck never does.
//
// Threads: all methods from any thread.

#ifndef LOCKSTEP_SERVER_RPC_OPEN_CALLS_H_
#define LOCKSTEP_SERVER_RPC_OPEN_CALLS_H_

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/mutex.h"

namespace lockstep::rpc {

class OpenCalls {
 public:
  // Counts one call for as long as it lives; a reactor's member.
  class Counted {
   public:
    explicit Counted(OpenCalls* calls) : calls_(calls) { calls_->Add(1); }
    ~Counted() { calls_->Add(-1); }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

   private:
    OpenCalls* const calls_;
  };

  // False if some are still open after `patience`.
  bool AwaitNone(absl::Duration patience);

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
