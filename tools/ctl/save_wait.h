// Decides from a job's views when a requested save has an outcome: that of the
// first save that began after the request. Whatever asked for that save, its
// checkpoint has all that the job had done by then.

#ifndef LOCKSTEP_TOOLS_CTL_SAVE_WAIT_H_
#define LOCKSTEP_TOOLS_CTL_SAVE_WAIT_H_

#include <optional>

#include "absl/status/status.h"
#include "protocol/job_view.h"

namespace lockstep::ctl {

class SaveWait {
 public:
  // `before`: a view from before the request.
  explicit SaveWait(const JobView& before);

  // OK once it is committed, its error if it failed, Aborted if the job's
  // epoch has ended before; nullopt: not yet.
  std::optional<absl::Status> Take(const JobView& view);

 private:
  const EpochId epoch_;
  // The save in progress is an earlier one.
  bool earlier_saves_;
  CheckpointView last_;
};

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_SAVE_WAIT_H_
