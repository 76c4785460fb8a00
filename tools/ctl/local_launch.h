// The workers of a job on this host, from their start to their end.
//
//   start ──▶ run ──┬─ all end well ──────────────────────────▶ 0
//              ▲    ├─ one fails, restarts are left ─▶ it starts again
//              ├────┼──────────────────────────────────┘ (restart_policy.h)
//              ├────┼─ ... or the job goes on without it (RunJob::needed)
//                   └─ one fails, none are left, or the job is over: the
//                      others have `grace` to end ────────────▶ its code
//
// The launcher reports the exit of each worker to the coordinator as proof
// (exit_reporter.h), so that the other workers detect a death at once, and
// prints stalls as they begin (stall_watch.h).
//
// Threads: the caller's, and ls-stalls. The workers are forked before the first
// gRPC call; those that are forked later only exec.

#ifndef LOCKSTEP_TOOLS_CTL_LOCAL_LAUNCH_H_
#define LOCKSTEP_TOOLS_CTL_LOCAL_LAUNCH_H_

#include <sched.h>

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "tools/ctl/exit_reporter.h"
#include "tools/ctl/restart_policy.h"
#include "tools/ctl/run_command.h"
#include "tools/ctl/run_job.h"
#include "tools/ctl/stall_watch.h"
#include "tools/ctl/term_save.h"
#include "tools/launch/local_daemon.h"
#include "tools/launch/scratch_folder.h"
#include "tools/launch/supervisor.h"
#include "tools/launch/worker_environment.h"

namespace lockstep::ctl {

// Prints the error of a launch.
void Complain(const absl::Status& status);

class LocalLaunch {
 public:
  // Both must outlive the launch.
  LocalLaunch(const RunOptions& options, const RunJob& job);

  // Blocks until all workers have ended. Returns the exit code of `run`.
  int Run();

 private:
  launch::SupervisorOptions Hooks();
  std::string DrawLaunch() const;
  absl::Status ReachCoordinator();
  absl::Status StartCoordinator();
  // A TLS folder of the private coordinator; empty: it speaks plaintext.
  std::string PrivateTls(const char* side) const;
  std::string OwnToken() const;
  std::string OwnTls() const;
  std::string WorkersToken() const;
  void SayWhere() const;
  absl::Status WriteSpec();
  absl::Status StartWorkers();
  launch::ChildCommand CommandOf(const std::string& worker, int restart);
  void WatchStalls();

  void OnEnding(const std::string& name, pid_t pid,
                const launch::ProcessExit& ending);
  bool MayForward(int signal);
  bool IsRefused(const std::string& worker, const absl::Status& reported);
  // Starts a worker that has failed again. False if it may not.
  bool Repair(const std::string& worker, const ExitReporter::Standing& job,
              const std::string& refusal);
  void StartIfNeeded(const std::string& worker,
                     const ExitReporter::Standing& job);
  void StartAgain(const std::string& worker, const Restart& restart);
  // The worker has failed, and is not started again.
  void GoOnWithout(const std::string& worker, const ExitReporter::Standing& job,
                   const launch::ProcessExit& ending);
  // The worker has failed, and the job has completed without it.
  void NoteUnneeded(const std::string& worker);
  void SayNoRestart(const std::string& why) const;

  const RunOptions& options_;
  const RunJob& job_;
  launch::WorkerPlace place_;  // what all workers share
  // A private coordinator has both; the certificates outlive it.
  std::optional<launch::ScratchFolder> certificates_;
  std::optional<launch::LocalDaemon> daemon_;  // if it is private
  std::optional<launch::ScratchFolder> scratch_;
  std::optional<cpu_set_t> cores_;  // of which each worker gets a share
  std::unique_ptr<ExitReporter> reporter_;
  RestartPolicy restarts_;
  std::set<std::string> ended_well_;
  std::set<std::string> lost_;  // failed, and not started again
  int code_of_lost_ = 0;        // of the first of them
  // Workers of which an exit could not be reported: the coordinator may still
  // reserve their names.
  std::set<std::string> unreported_;
  launch::Supervisor supervisor_;
  std::unique_ptr<StallWatch> stalls_;
  std::optional<TermSave> term_save_;  // in progress
};

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_LOCAL_LAUNCH_H_
