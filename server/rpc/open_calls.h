// How many streams are open, and when there are none left.
//
// gRPC's own shutdown also waits for every connection to be closed by the other
// side, which a worker that is stopped or stuck never does.
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
  // Counts one call until its end; a reactor's member. A reactor that others
  // hold too may outlive the server, so it says End in OnDone.
  class Counted {
   public:
    explicit Counted(OpenCalls* calls) : calls_(calls) { calls_->Add(1); }
    ~Counted() { End(); }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

    void End() {
      if (calls_ != nullptr) std::exchange(calls_, nullptr)->Add(-1);
    }

   private:
    OpenCalls* calls_;
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
