// When the gradients of each transfer will be in their bucket: moments of the
// streams that they were submitted on.
//
//   Submit(a, s) ─▶ Add(0, event of s) ┐
//   Submit(b, t) ─▶ Add(0, event of t) ┴▶ complete ─▶ Take(0): it waits for
//   both
//
// Threads: any.

#ifndef LOCKSTEP_CLIENT_GRADIENT_ARRIVALS_H_
#define LOCKSTEP_CLIENT_GRADIENT_ARRIVALS_H_

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "lockstep/stream.h"

namespace lockstep::gradient {

class Arrivals {
 public:
  // Something for transfer `item` is there once `event` has come.
  void Add(int item, Event event) {
    if (event.state() == nullptr) return;  // it is there
    MutexLock lock(&mutex_);
    if (item >= static_cast<int>(events_.size())) events_.resize(item + 1);
    events_[item].push_back(std::move(event));
  }

  // All that were added since the last time.
  std::vector<Event> Take(int item) {
    MutexLock lock(&mutex_);
    if (item >= static_cast<int>(events_.size())) return {};
    return std::exchange(events_[item], {});
  }

  // As if none had been added.
  void Clear() {
    MutexLock lock(&mutex_);
    events_.clear();
  }

 private:
  Mutex mutex_;
  std::vector<std::vector<Event>> events_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_ARRIVALS_H_
