// A private coordinator on this machine: for the launcher and for the demo.
//
// Starts the lockstepd that lies beside our own program on a port the kernel
// picks, and tells where it listens.

#ifndef LOCKSTEP_TOOLS_LAUNCH_LOCAL_DAEMON_H_
#define LOCKSTEP_TOOLS_LAUNCH_LOCAL_DAEMON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/launch/supervisor.h"

namespace lockstep::launch {

// The folder of the running program.
std::string OwnFolder();

// Adds the daemon to `supervisor` as a background child and waits until it
// listens. Returns its HOST:PORT. NotFound if there is no lockstepd,
// Unavailable if it ended or did not listen within `patience`.
absl::StatusOr<std::string> StartLocalDaemon(
    Supervisor& supervisor, absl::Duration patience = absl::Seconds(20));

}  // namespace lockstep::launch

#endif  // LOCKSTEP_TOOLS_LAUNCH_LOCAL_DAEMON_H_
