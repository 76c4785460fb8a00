// The job that is meant when JOB is left out.

#ifndef LOCKSTEP_TOOLS_CTL_CHOOSE_JOB_H_
#define LOCKSTEP_TOOLS_CTL_CHOOSE_JOB_H_

#include <vector>

#include "absl/status/statusor.h"
#include "protocol/job_view.h"

namespace lockstep::ctl {

// Completed, failed or stopped.
bool IsOver(JobState state);

// The only job, or the only one that is not over. NotFound if there is no job;
// InvalidArgument, with the names of those that could be meant, if there are
// several.
absl::StatusOr<JobName> OnlyJob(const std::vector<JobSummary>& jobs);

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_CHOOSE_JOB_H_
