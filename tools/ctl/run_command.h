// `lockstepctl run`: starts the workers of a job on this machine and sees them
// through to their end.

#ifndef LOCKSTEP_TOOLS_CTL_RUN_COMMAND_H_
#define LOCKSTEP_TOOLS_CTL_RUN_COMMAND_H_

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace lockstep::ctl {

struct RunOptions {
  int workers = 1;        // on this host, as on each
  int nodes = 1;          // hosts, each with a launcher of its own
  int node_rank = 0;      // of this host
  int restarts = 0;       // of all workers of this host, after one has failed
  std::string address;    // empty: a private daemon is started
  std::string job;        // empty: the spec's name, else the program's
  std::string spec_file;  // empty: a job with mesh data=workers
  // The token of the coordinator at `address`: the workers get it too, so the
  // workers' token is enough. A private daemon takes it as the operator's.
  std::string token;
  std::string
      host_address;    // empty: as the workers take it from elsewhere, or,
                       // on several nodes, where the coordinator is reached
  bool label = false;  // puts the worker's name before each line of output
  absl::Duration grace = absl::Seconds(10);
  std::vector<std::string> program;
};

// Blocks. 0 if all workers ended well; else the code of the first that did not,
// 128 + signal if it was killed; 2 for a job that run_job.h refuses, in one
// line, or a program that cannot be run; 3 if no coordinator can be started.
//
// With `restarts` the workers of this host start again, all of them, after one
// has failed and the others have ended, unless the job is over, a worker was
// refused for good or the launcher was interrupted; the code is that of the
// last try.
//
// Each worker finds in its environment LOCKSTEP_ADDRESS, LOCKSTEP_JOB,
// LOCKSTEP_WORKER_NAME, LOCKSTEP_WORLD_SIZE, LOCKSTEP_RESTART_COUNT,
// LOCAL_RANK (its number on this host), LOCKSTEP_LAUNCH, LOCKSTEP_SPEC if
// given, and LOCKSTEP_TOKEN: `token`, or the workers' token of a private
// daemon; on several nodes LOCKSTEP_HOST_ADDRESS, too. The end of each is
// reported to the coordinator as proof, so that the others learn of a death at
// once.
int Run(const RunOptions& options);

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_RUN_COMMAND_H_
