// Waits for what the device decides, one step after the other, on a thread of
// its own: so the comm queue enqueues the next step meanwhile.
//
//   comm queue  [enqueue k] ─Add─▶ [enqueue k + 1] ─Add─▶
//   ls-verdict              [wait for k ...][act on it][wait for k + 1 ...]
//
// Threads: Add by one at a time; `await` runs on the thread of the watch.

#ifndef LOCKSTEP_CLIENT_GRADIENT_VERDICT_WATCH_H_
#define LOCKSTEP_CLIENT_GRADIENT_VERDICT_WATCH_H_

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "client/gradient/pending.h"
#include "lockstep/stream.h"

namespace lockstep::gradient {

class VerdictWatch {
 public:
  struct EnqueuedStep {
    std::shared_ptr<PendingVerdict::State> verdict;
    Event written;  // behind its record; null: the same as `decided`
    // Behind its gate; an error: why the step cannot be awaited to its end.
    absl::StatusOr<Event> decided;
    std::shared_ptr<const void> kept;  // until then
    int communicator = -1;             // of that error
  };

  explicit VerdictWatch(std::function<void(const EnqueuedStep&)> await)
      : await_(std::move(await)),
        thread_(StartThread("ls-verdict", [this] { Run(); })) {}
  ~VerdictWatch() { Finish(); }

  void Add(EnqueuedStep step) {
    MutexLock lock(&mutex_);
    steps_.push_back(std::move(step));
    changed_.NotifyAll();
  }

  // Returns when everything that was added has been awaited; nothing is added
  // afterwards.
  void Finish() {
    {
      MutexLock lock(&mutex_);
      finishes_ = true;
      changed_.NotifyAll();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  void Run() {
    for (;;) {
      EnqueuedStep step;
      {
        MutexLock lock(&mutex_);
        while (steps_.empty() && !finishes_) changed_.Wait(&mutex_);
        if (steps_.empty()) return;
        step = std::move(steps_.front());
        steps_.pop_front();
      }
      await_(step);
    }
  }

  const std::function<void(const EnqueuedStep&)> await_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<EnqueuedStep> steps_ ABSL_GUARDED_BY(mutex_);
  bool finishes_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_VERDICT_WATCH_H_
