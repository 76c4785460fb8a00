// Which stalls in the views of a job are news: a worker that others wait for is
// named once for each stall, and at most once a minute.
//
// Threads: none. Pure: the time is an argument.

#ifndef LOCKSTEP_TOOLS_CTL_STALL_LOG_H_
#define LOCKSTEP_TOOLS_CTL_STALL_LOG_H_

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "protocol/job_view.h"

namespace lockstep::ctl {

class StallLog {
 public:
  // The sentences of `view` about stalls that have begun since the last view.
  std::vector<std::string> Take(const JobView& view, absl::Time now);

 private:
  struct Stall {
    bool is_on = false;  // in the last view
    absl::Time named = absl::InfinitePast();
  };
  std::map<std::string, Stall> stalls_;  // by worker
};

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_STALL_LOG_H_
