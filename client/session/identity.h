// This worker's name, its job and the coordinator's addresses. Fields that
// JoinOptions leave empty are taken from the environment.
//
//   LOCKSTEP_ADDRESS       HOST:PORT, comma separated    127.0.0.1:7070
//   LOCKSTEP_JOB           the job's name                the spec's name
//   LOCKSTEP_WORKER_NAME   this worker's name            HOST-PID
//   LOCKSTEP_TOKEN         the job's token
//   LOCKSTEP_TLS           a folder with certificates
//   LOCKSTEP_HOST_ADDRESS  where other workers reach us  127.0.0.1
//   LOCKSTEP_SPEC          a file with the job spec
//   LOCKSTEP_WORLD_SIZE    N: a spec with mesh data=N, without another spec
//   LOCKSTEP_LAUNCH        ID, or ID NODE_RANK/NODES: set by a launcher
//
// An empty variable counts as not set.

#ifndef LOCKSTEP_CLIENT_SESSION_IDENTITY_H_
#define LOCKSTEP_CLIENT_SESSION_IDENTITY_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "lockstep/session.h"
#include "protocol/types.h"

namespace lockstep::session {

// The value of a variable; empty if it is not set.
using Environment = std::function<std::string(const std::string& name)>;

// The environment of this process.
std::string ProcessEnvironment(const std::string& name);

// Host name, process id, start time and the boot id of the running kernel.
protocol::ProcessInfo ThisProcess();

// The parsed LOCKSTEP_LAUNCH; nullopt if it is not set. InvalidArgument: it has
// another form.
absl::StatusOr<std::optional<protocol::Launch>> LaunchOf(
    const Environment& environment);

// Fills in every field that a session needs; `spec` may stay empty.
// InvalidArgument: no job name, two different ones, a spec that cannot be read
// or is invalid, a malformed variable (the message names it).
absl::StatusOr<JoinOptions> Complete(JoinOptions options,
                                     const Environment& environment,
                                     const protocol::ProcessInfo& process);

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_IDENTITY_H_
