// The subcommands of lockstepctl, one function each. Each returns the exit
// code: 0 ok, 1 refused, 3 unreachable.

#ifndef LOCKSTEP_TOOLS_CTL_COMMANDS_H_
#define LOCKSTEP_TOOLS_CTL_COMMANDS_H_

#include <string>

#include "protocol/job_command.h"

namespace lockstep::ctl {

struct CommonOptions {
  std::string address;
  std::string token;
  std::string tls_folder;
  bool json = false;
};

int Create(const CommonOptions& common, const std::string& spec_file);
int Jobs(const CommonOptions& common);
int Limits(const CommonOptions& common);
// An empty `job` means the only one (choose_job.h).
int DescribeJob(const CommonOptions& common, const std::string& job);
int Watch(const CommonOptions& common, const std::string& job);
// Sends a command to a running job.
int SendCommand(const CommonOptions& common, const std::string& job,
                JobCommand command, const std::string& reason);
// Has all ranks save, and waits for the outcome; on a terminal, shows the
// progress.
int SaveAndWait(const CommonOptions& common, const std::string& job,
                const std::string& reason);
// Deletes a job that is over, with everything that describe shows of it.
int Delete(const CommonOptions& common, const std::string& job);
int StopNow(const CommonOptions& common, const std::string& job,
            const std::string& reason);

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_COMMANDS_H_
