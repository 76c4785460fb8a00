// Processes that were refused for good when they tried to join. A launcher asks
// before it restarts a process, since another attempt would be refused too.
//
// Keeps the newest kRefusalsMax.
//
// Threads: none.

#ifndef LOCKSTEP_SERVER_CORE_REFUSALS_H_
#define LOCKSTEP_SERVER_CORE_REFUSALS_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>

#include "absl/status/status.h"
#include "protocol/ids.h"
#include "protocol/types.h"

namespace lockstep::core {

inline constexpr size_t kRefusalsMax = 1024;

class Refusals {
 public:
  void Add(const JobName& job, const protocol::ProcessInfo& process,
           absl::Status why) {
    if (!process.identifies()) return;
    if (refusals_.size() == kRefusalsMax) refusals_.pop_front();
    refusals_.push_back({job, process, std::move(why)});
  }

  // The process was admitted after all.
  void Forget(const JobName& job, const protocol::ProcessInfo& process) {
    std::erase_if(refusals_, [&](const Refusal& refusal) {
      return refusal.job == job && refusal.process == process;
    });
  }

  // The newest refusal; OK if there is none.
  absl::Status Of(const JobName& job,
                  const protocol::ProcessInfo& process) const {
    const auto found = std::find_if(
        refusals_.rbegin(), refusals_.rend(), [&](const Refusal& refusal) {
          return refusal.job == job && refusal.process == process;
        });
    return found == refusals_.rend() ? absl::OkStatus() : found->why;
  }

 private:
  struct Refusal {
    JobName job;
    protocol::ProcessInfo process;
    absl::Status why;
  };

  std::deque<Refusal> refusals_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_REFUSALS_H_
