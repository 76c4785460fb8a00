// `lockstepctl run`: starts the workers of a job on this machine and waits for
// their end.

#ifndef LOCKSTEP_TOOLS_CTL_RUN_COMMAND_H_
#define LOCKSTEP_TOOLS_CTL_RUN_COMMAND_H_

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace lockstep::ctl {

struct RunOptions {
  int workers = 1;        // on each host
  int nodes = 1;          // hosts, each with its own launcher
  int node_rank = 0;      // of this host
  int restarts = 0;       // of this host's workers (restart_policy.h)
  int spares = 0;         // workers on each host beside those of the mesh
  std::string address;    // empty: a private daemon is started
  std::string job;        // empty: the spec's name, else the program's
  std::string spec_file;  // empty: a job with mesh data=workers
  // The token of the coordinator at `address`, also passed to the workers
  // unless `worker_token` is set, so the workers' token suffices. A private
  // daemon uses it as the operator's token.
  std::string token;
  // The workers' token of that coordinator, of which the token of the job is
  // made for the workers. Empty, or 32 bytes or more.
  std::string worker_token;
  // Certificates for the coordinator at `address`, of this launcher, and of its
  // workers unless `worker_tls_folder` is set. A private daemon gets
  // certificates of its own, unless `insecure` is set.
  std::string tls_folder;
  std::string worker_tls_folder;
  bool insecure = false;
  // The workers' host address. Empty: they use their default or, on several
  // nodes, the address from which this host reaches the coordinator.
  std::string host_address;
  std::string data_plane = "local";  // or "trusted": adds it to the spec
  std::string journal = "memory";    // of a private coordinator
  bool bind_cores = false;  // each worker gets a share of this host's cores
  bool label = false;       // prefixes each output line with the worker's name
  absl::Duration grace = absl::Seconds(10);
  // How long SIGTERM may wait for a checkpoint before the workers get it.
  absl::Duration save_on_term = absl::ZeroDuration();
  std::vector<std::string> program;

  const std::string& LauncherTls() const {
    return tls_folder.empty() ? worker_tls_folder : tls_folder;
  }
  const std::string& WorkersTls() const {
    return worker_tls_folder.empty() ? tls_folder : worker_tls_folder;
  }
};

// Blocks until all workers have ended. Returns 0 if all succeeded; the code of
// the first worker that failed and was not started again, 128 + signal if it
// was killed; 2 for a job that run_job.h refuses, a program that cannot be run,
// or workers' certificates that cannot be used; 3 if no coordinator can be
// started.
//
// With `restarts`, a worker that fails is started again while the others run
// on, unless the job is over or drained, the worker was permanently refused or
// the launcher was interrupted. A worker that is not started again does not
// count as long as the job can go on without it: with `spares`, and in an
// elastic job. Then 0 is returned if as many workers as the job needs ended
// well.
//
// The environment of each worker has LOCKSTEP_ADDRESS, LOCKSTEP_JOB,
// LOCKSTEP_WORKER_NAME, LOCKSTEP_WORLD_SIZE, LOCKSTEP_RESTART_COUNT,
// LOCAL_RANK (its number on this host), LOCKSTEP_LAUNCH, LOCKSTEP_TLS,
// LOCKSTEP_SPEC if given, and LOCKSTEP_TOKEN: `token`, or the join token of the
// job; on several nodes also LOCKSTEP_HOST_ADDRESS. The launcher reports the
// exit of each worker to the coordinator as proof, so that the other workers
// detect a death immediately, and prints stalls.
int Run(const RunOptions& options);

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_RUN_COMMAND_H_
