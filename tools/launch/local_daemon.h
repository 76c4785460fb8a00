// Starts a private coordinator on this machine, for the launcher and the demo.
//
// Starts the lockstepd in the folder of the running program, on a port that the
// kernel picks, and returns its address. Every user of the machine can connect
// to that port, so the coordinator gets two random tokens: one of which those
// of each job's workers are made, and one for operators (operator_token.h),
// which only this user can read. They are passed in files, never in arguments.

#ifndef LOCKSTEP_TOOLS_LAUNCH_LOCAL_DAEMON_H_
#define LOCKSTEP_TOOLS_LAUNCH_LOCAL_DAEMON_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tools/launch/child.h"
#include "tools/launch/operator_token.h"
#include "tools/launch/scratch_folder.h"
#include "tools/launch/supervisor.h"

namespace lockstep::launch {

inline constexpr char kJournalInMemory[] = "memory";

// The folder of the running program.
std::string OwnFolder();

struct LocalDaemon {
  std::string address;         // HOST:PORT
  std::string worker_token;    // admits workers to every job
  std::string operator_token;  // opens every call
  // For WorkerPlace::token: admits workers to that job only.
  std::string JoinTokenOf(const std::string& job) const;

  // The file with the operator's token. Its destructor removes the file: keep
  // it as long as the daemon is needed.
  PublishedToken published;
  // With a journal in a folder: starts the daemon again, at the same address
  // and with the same journal.
  ChildCommand again;
  // Has the files of the tokens, which the daemon reads again and again. Keep
  // it as long as the daemon is needed.
  std::unique_ptr<ScratchFolder> scratch;
};

struct LocalDaemonOptions {
  std::string operator_token;              // empty: a random one
  std::string journal = kJournalInMemory;  // its --journal
  std::string tls_folder;                  // its --tls; empty: plaintext
  std::string operator_tls_folder;         // of OperatorAccess
  std::string worker_tls_folder;           // of OperatorAccess
  absl::Duration patience = absl::Seconds(20);
};

// Adds the daemon to `supervisor` as a background child and waits until it
// listens. Errors:
// NotFound (no lockstepd), Unavailable (the daemon ended, or did not listen
// within `patience`). If the operator's token cannot be published, a warning on
// standard error has the reason and states that only this launcher can operate
// the job.
absl::StatusOr<LocalDaemon> StartLocalDaemon(
    Supervisor& supervisor, const LocalDaemonOptions& options = {});

}  // namespace lockstep::launch

#endif  // LOCKSTEP_TOOLS_LAUNCH_LOCAL_DAEMON_H_
