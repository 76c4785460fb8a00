// Asks a coordinator for the job that a launcher is about to start.
//
// Threads: one. Forks, so before the caller's first gRPC call.

#ifndef LOCKSTEP_TOOLS_CTL_ASK_FOR_JOB_H_
#define LOCKSTEP_TOOLS_CTL_ASK_FOR_JOB_H_

#include <optional>
#include <string>

#include "lockstep/job_spec.h"
#include "protocol/ids.h"

namespace lockstep::ctl {

// The spec of the job of this name, unless the job is over, which frees its
// name. Empty if the coordinator does not answer or refuses: the workers' token
// does not allow describe. The workers then report the error.
std::optional<JobSpec> AskForJob(const std::string& address, const JobName& job,
                                 const std::string& token,
                                 const std::string& tls_folder);

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_ASK_FOR_JOB_H_
