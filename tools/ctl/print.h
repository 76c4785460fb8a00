// What lockstepctl prints: text for people, JSON for programs.

#ifndef LOCKSTEP_TOOLS_CTL_PRINT_H_
#define LOCKSTEP_TOOLS_CTL_PRINT_H_

#include <string>
#include <vector>

#include "protocol/job_command.h"
#include "protocol/job_view.h"

namespace lockstep::ctl {

// On the standard output, at once.
void Print(const std::string& text);

// Each ends with a newline. The JSON's fields are those of docs/lockstepctl.md;
// durations are seconds, names of states are lower case.
std::string JobsAsText(const std::vector<JobSummary>& jobs);
std::string JobsAsJson(const std::vector<JobSummary>& jobs);
std::string JobAsText(const JobView& view);
// `indent` < 0: on one line.
std::string JobAsJson(const JobView& view, int indent);

// What follows on a command that was accepted: "job digits: all ranks will
// pause after the same step".
std::string CommandAsText(const JobName& job, JobCommand command);

// "job digits  running  epoch 1  step 412  4 of 4 ready": a line of `watch`.
std::string JobAsLine(const JobView& view);

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_PRINT_H_
