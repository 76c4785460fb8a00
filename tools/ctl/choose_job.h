// Chooses the job of a command without JOB.

#ifndef LOCKSTEP_TOOLS_CTL_CHOOSE_JOB_H_
#define LOCKSTEP_TOOLS_CTL_CHOOSE_JOB_H_

#include <vector>

#include "absl/status/statusor.h"
#include "protocol/job_view.h"

namespace lockstep::ctl {

// True for completed, failed and stopped jobs.
bool IsOver(JobState state);

// Returns the only job, or the only one that is not over. Errors: NotFound (no
// job), InvalidArgument (several candidates, which are listed).
absl::StatusOr<JobName> OnlyJob(const std::vector<JobSummary>& jobs);

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_CHOOSE_JOB_H_
