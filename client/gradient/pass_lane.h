// The gradient lane of negotiated mode: launches reductions in the order that
// the coordinator decides.
//
//   decided    b, 2 give    a, 1 gives    close            b, ... of the next
//   launched   b            a                 verdict      b
//   this rank  └ gives      └ zeros      Finish ┘
//
// The coordinator decides this rank's own parameter only after it was
// submitted. So only the verdict waits here: for the close of the pass, and for
// Finish.
//
// Threads: any. Launches are called under the lane's lock, in order, and must
//          only enqueue.

#ifndef LOCKSTEP_CLIENT_GRADIENT_PASS_LANE_H_
#define LOCKSTEP_CLIENT_GRADIENT_PASS_LANE_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "client/gradient/bucket_store.h"
#include "protocol/negotiation.h"

namespace lockstep::gradient {

class PassLane {
 public:
  struct Launches {
    std::function<void(int parameter, const BucketStore::Share&)> reduction;
    // `untouched`: the parameters that no rank submitted in the pass.
    std::function<void(std::vector<int> untouched)> verdict;
  };

  // `plan_indices`: the rank's parameters in registration order. The lane
  // identifies parameters by position in that list.
  PassLane(const std::vector<uint32_t>& plan_indices, Launches launches)
      : launches_(std::move(launches)) {
    for (const uint32_t index : plan_indices) {
      if (index >= parameter_of_.size()) parameter_of_.resize(index + 1, -1);
      parameter_of_[index] = parameter_count_++;
    }
  }

  // Begins a pass, before it is announced, with this rank's parameters.
  void Begin(const std::vector<int>& parameters) {
    MutexLock lock(&mutex_);
    gives_.assign(parameter_count_, false);
    reduced_.resize(parameter_count_, false);
    for (const int parameter : parameters) gives_[parameter] = true;
  }

  // Executes decisions, in order; ignores parameters of other groups.
  void Decide(const protocol::Decision& decision) {
    MutexLock lock(&mutex_);
    if (decision.announcers == 0) {
      closed_ = true;
      return LaunchVerdictIfOver();
    }
    const bool is_known = decision.parameter < parameter_of_.size() &&
                          parameter_of_[decision.parameter] >= 0;
    if (!is_known) return;
    const int parameter = parameter_of_[decision.parameter];
    reduced_[parameter] = true;
    launches_.reduction(parameter,
                        {.announcers = static_cast<int>(decision.announcers),
                         .gives = gives_[parameter]});
  }

  // This rank has submitted everything that it announced.
  void Finish() {
    MutexLock lock(&mutex_);
    finished_ = true;
    LaunchVerdictIfOver();
  }

 private:
  void LaunchVerdictIfOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!closed_ || !finished_) return;
    closed_ = finished_ = false;
    std::vector<int> untouched;
    for (int p = 0; p < parameter_count_; ++p) {
      if (!reduced_[p]) untouched.push_back(p);
    }
    reduced_.assign(parameter_count_, false);
    launches_.verdict(std::move(untouched));
  }

  const Launches launches_;
  std::vector<int> parameter_of_;  // by index in the plan; -1: not the rank's
  int parameter_count_ = 0;

  Mutex mutex_;
  std::vector<bool> gives_ ABSL_GUARDED_BY(mutex_);
  std::vector<bool> reduced_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::gradient

#endif  // LOCKSTEP_CLIENT_GRADIENT_PASS_LANE_H_
