// Watches a job and reports each stall when it begins.
//
// A job that the coordinator does not know yet is waited for: its first worker
// may create it. The watch ends when the job is over, or if the token does not
// allow it.
//
// Threads: owns one, ls-stalls, which calls `on_stall`. The destructor ends it.

#ifndef LOCKSTEP_TOOLS_CTL_STALL_WATCH_H_
#define LOCKSTEP_TOOLS_CTL_STALL_WATCH_H_

#include <functional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "protocol/ids.h"
#include "tools/rpc/admin_client.h"

namespace lockstep::ctl {

class StallWatch {
 public:
  StallWatch(const JobName& job, const AdminClientOptions& coordinator,
             std::function<void(const std::string& sentence)> on_stall);
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

 private:
  void Run();
  bool Pause();

  const JobName job_;
  const std::function<void(const std::string& sentence)> on_stall_;
  AdminClient admin_;
  Mutex mutex_;
  CondVar ends_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_STALL_WATCH_H_
