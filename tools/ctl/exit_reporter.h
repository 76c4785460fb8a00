// Reports the exit of each worker to the coordinator, and asks it how the job
// stands.
//
// The report proves the exit: the launcher has waited for the process. No
// connection stays open, because a draining coordinator would wait for it.
//
// Threads: one. Calls block, for a second at most for each coordinator.

#ifndef LOCKSTEP_TOOLS_CTL_EXIT_REPORTER_H_
#define LOCKSTEP_TOOLS_CTL_EXIT_REPORTER_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protocol/evidence.h"
#include "protocol/job_view.h"
#include "tools/launch/child.h"
#include "tools/rpc/admin_client.h"

namespace lockstep::ctl {

class ExitReporter {
 public:
  ExitReporter(const std::string& job, const std::string& addresses,
               const std::string& token, const std::string& tls_folder);

  // FailedPrecondition: the coordinator has permanently refused the process.
  // Unavailable: it does not answer. The report is kept for ReportRest, which
  // Report calls once the coordinator answers again; until then it can detect
  // the death by the worker's lease only.
  absl::Status Report(const std::string& worker, pid_t pid,
                      const launch::ProcessExit& ending);

  // Sends the reports that did not arrive once more.
  void ReportRest();

  struct Standing {
    std::string over;    // why no worker is wanted; empty: one may be
    bool forms = false;  // it has no epoch and waits for workers
    // It has completed, and this process has not left it: it died in the last
    // step, or came too late.
    bool completed_without_it = false;
  };
  // Empty if the coordinator does not answer, or refuses: the workers' token
  // does not allow describe.
  Standing Ask(const std::string& worker, pid_t pid);

 private:
  absl::Status Send(const protocol::Evidence& exit);

  const JobName job_;
  const AdminClientOptions admin_;
  std::vector<protocol::Evidence> rest_;  // did not arrive
};

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_EXIT_REPORTER_H_
