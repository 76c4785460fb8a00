// `lockstepctl token`: prints the token that admits workers to one job
// (base/join_token.h). Asks no coordinator.

#ifndef LOCKSTEP_TOOLS_CTL_TOKEN_COMMAND_H_
#define LOCKSTEP_TOOLS_CTL_TOKEN_COMMAND_H_

#include <string>

namespace lockstep::ctl {

// `worker_token_file`: that of the coordinator; its first token is used.
// Returns the exit code: 0, or 1 if the file cannot be used or no job can have
// that name.
int PrintJoinToken(const std::string& job,
                   const std::string& worker_token_file);

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_TOKEN_COMMAND_H_
