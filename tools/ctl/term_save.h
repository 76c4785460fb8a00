// Has a job save a checkpoint before a launcher ends its workers.
//
//   SIGTERM ──▶ request ──▶ all ranks save at one step ──▶ committed ──▶
//   forward
//                 └─ refused, failed, the epoch ends, or the time is over ──▶
//                 forward
//
// Several launchers of a job that end together ask for one save.
//
// Threads: one. Calls block, for a second at most for each coordinator.

#ifndef LOCKSTEP_TOOLS_CTL_TERM_SAVE_H_
#define LOCKSTEP_TOOLS_CTL_TERM_SAVE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tools/ctl/save_wait.h"
#include "tools/rpc/admin_client.h"

namespace lockstep::ctl {

class TermSave {
 public:
  // Waits for `longest` at most, from the first Take on.
  TermSave(JobName job, AdminClientOptions admin, absl::Duration longest);

  // Asks for the save at first, then for its outcome: OK once it is committed,
  // an error if it cannot be; nullopt: not yet.
  std::optional<absl::Status> Take(absl::Time now);

 private:
  const JobName job_;
  const absl::Duration longest_;
  AdminClient admin_;
  std::optional<SaveWait> wait_;  // since the request was accepted
  absl::Time give_up_at_ = absl::InfiniteFuture();
};

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_TERM_SAVE_H_
