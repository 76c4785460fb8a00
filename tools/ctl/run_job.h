// The job that `lockstepctl run` launches, determined before any process
// starts.
//
//   -f SPEC           the spec of the file: its name, mesh and worker names
//   without -f        a mesh data=N under the name of --job, or of the program
//   --nodes, -rank    one job on several hosts, with a launcher on each:
//                     -n 4 --nodes 2 --node-rank 1 has worker-4 .. worker-7
//   --restarts        the job allows as many restarts (limits.max_restarts)
//   --spares          the job takes as many workers more (limits.spares), and
//                     allows at least so many restarts
//
//   an existing job   the spec that the coordinator has; that of -f must be
//                     equal
//
// Pure: the caller reads the file and queries the coordinator.

#ifndef LOCKSTEP_TOOLS_CTL_RUN_JOB_H_
#define LOCKSTEP_TOOLS_CTL_RUN_JOB_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/job_spec.h"

namespace lockstep::ctl {

struct RunRequest {
  int workers = 1;              // per host
  int nodes = 1;                // hosts
  int node_rank = 0;            // of this host
  int restarts = 0;             // of its workers, in total
  int spares = 0;               // per host, beside its workers
  bool has_address = false;     // of a coordinator that other hosts reach, too
  bool trusts_network = false;  // --data-plane trusted
  std::string job;        // --job; empty: the spec's name, else the program's
  std::string program;    // a path
  std::string spec_file;  // the file's name, for messages; empty: none
};

struct RunJob {
  JobSpec spec;
  // Names of this host's workers, in order; spares are the last ones.
  std::vector<std::string> workers;
  // So many of them must end well: the job goes on without the others.
  int needed = 0;
  bool differs_from_file = false;  // the workers need a rewritten file
};

// InvalidArgument, in one sentence, if the spec is malformed, if --job and the
// spec name different jobs, if the node does not exist, if the spec allows
// fewer restarts or spares, or if the number of workers is not the number of
// ranks: such a job would wait for other workers until its join timeout.
absl::StatusOr<RunJob> DecideJob(const RunRequest& request,
                                 const std::string& spec_text);

// The job if the coordinator already has one of this name, which is not over,
// with the spec `existing`. Without a file the workers join with that spec.
// InvalidArgument, in one sentence, if the file has another spec, or if workers
// or restarts do not fit the job.
absl::StatusOr<RunJob> JoinExisting(const RunRequest& request,
                                    const JobSpec& existing, const RunJob& job);

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_RUN_JOB_H_
