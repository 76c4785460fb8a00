// The output of lockstepctl: text for people, JSON for programs.

#ifndef LOCKSTEP_TOOLS_CTL_PRINT_H_
#define LOCKSTEP_TOOLS_CTL_PRINT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "protocol/job_command.h"
#include "protocol/job_view.h"
#include "protocol/limit_use.h"

namespace lockstep::ctl {

// Writes to standard output and flushes.
void Print(const std::string& text);

// Writes an error, which may have several lines, to standard error. Returns the
// exit code, 1.
int Refuse(const absl::Status& status);

// Writes a line to standard error: the command goes on.
void Warn(const std::string& line);

// Each result ends with a newline. docs/lockstepctl.md lists the JSON fields;
// durations are in seconds, state names in lower case.
std::string JobsAsText(const std::vector<JobSummary>& jobs);
std::string JobsAsJson(const std::vector<JobSummary>& jobs);
std::string LimitsAsText(const std::vector<LimitUse>& limits);
std::string LimitsAsJson(const std::vector<LimitUse>& limits);
std::string JobAsText(const JobView& view);
// `indent` < 0: on one line.
std::string JobAsJson(const JobView& view, int indent);

// The effect of an accepted command: "job digits: all ranks will pause after
// the same step".
std::string CommandAsText(const JobName& job, JobCommand command);

// "saves step 20: 1.2 GiB of 3.0 GiB, 512.0 MiB/s", or empty.
std::string SavingText(const CheckpointView& checkpoint);

// "job digits  running  epoch 1  step 412  4 of 4 ready": a line of `watch`.
std::string JobAsLine(const JobView& view);

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_PRINT_H_
