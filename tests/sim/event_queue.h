// Simulated time: a queue of events, ordered by their time.
//
// Events of equal time run in the order in which they were scheduled, so a
// history is a function of its seed.

#ifndef LOCKSTEP_TESTS_SIM_EVENT_QUEUE_H_
#define LOCKSTEP_TESTS_SIM_EVENT_QUEUE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/time/time.h"

namespace lockstep::sim {

class EventQueue {
 public:
  absl::Time now() const { return now_; }

  void At(absl::Time when, std::function<void()> what) {
    queue_.emplace(std::pair{std::max(when, now_), ++planned_},
                   std::move(what));
  }
  void After(absl::Duration delay, std::function<void()> what) {
    At(now_ + delay, std::move(what));
  }

  // Runs the next event; false if none is scheduled before `end`.
  bool RunOne(absl::Time end) {
    if (queue_.empty() || queue_.begin()->first.first > end) return false;
    auto entry = queue_.extract(queue_.begin());
    now_ = entry.key().first;
    entry.mapped()();
    return true;
  }

 private:
  absl::Time now_ = absl::UnixEpoch();
  uint64_t planned_ = 0;
  std::map<std::pair<absl::Time, uint64_t>, std::function<void()>> queue_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_EVENT_QUEUE_H_
