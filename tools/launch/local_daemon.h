// A private coordinator on this machine: for the launcher and for the demo.
//
// Starts the lockstepd that lies beside our own program on a port the kernel
// picks, and tells where it listens. Every user of the machine can connect to
// that port, so the coordinator gets two random tokens: one for the workers,
// and one for operators (operator_token.h), which only this user can read. They
// are passed in files, never in arguments.

#ifndef LOCKSTEP_TOOLS_LAUNCH_LOCAL_DAEMON_H_
#define LOCKSTEP_TOOLS_LAUNCH_LOCAL_DAEMON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/launch/operator_token.h"
#include "tools/launch/supervisor.h"

namespace lockstep::launch {

// The folder of the running program.
std::string OwnFolder();

struct LocalDaemon {
  std::string address;         // HOST:PORT
  std::string worker_token;    // for WorkerPlace::token
  std::string operator_token;  // opens every call
  // Removed with this: keep it until the daemon is not needed any more.
  PublishedToken published;
};

// Adds the daemon to `supervisor` as a background child and waits until it
// listens. `operator_token`: one to use instead of a random one; may be empty.
// NotFound if there is no lockstepd, Unavailable if it ended or did not listen
// within `patience`. If the operator's token cannot be published, a warning on
// standard error says why and that only this launcher can operate the job.
absl::StatusOr<LocalDaemon> StartLocalDaemon(
    Supervisor& supervisor, const std::string& operator_token = "",
    absl::Duration patience = absl::Seconds(20));

}  // namespace lockstep::launch

#endif  // LOCKSTEP_TOOLS_LAUNCH_LOCAL_DAEMON_H_
