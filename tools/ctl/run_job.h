// The job that `lockstepctl run` launches, decided before any process starts.
//
//   -f SPEC           the spec of the file: its name, its mesh, its worker
//   names without           a mesh data=N under the name of --job, or of the
//   program
//   --nodes, -rank    one job on several hosts, with a launcher on each:
//                     -n 4 --nodes 2 --node-rank 1 has worker-4 .. worker-7
//   --restarts        the job may form again as often (limits.max_restarts)
//
//   an existing job   its spec, which the coordinator has: that of -f must be
//                     the same
//
// Pure: the caller reads the file and asks the coordinator.

#ifndef LOCKSTEP_TOOLS_CTL_RUN_JOB_H_
#define LOCKSTEP_TOOLS_CTL_RUN_JOB_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/job_spec.h"

namespace lockstep::ctl {

struct RunRequest {
  int workers = 1;           // on each host
  int nodes = 1;             // hosts
  int node_rank = 0;         // of this one
  int restarts = 0;          // of its workers, in all
  bool has_address = false;  // of a coordinator that others reach, too
  std::string job;        // --job; empty: the spec's name, else the program's
  std::string program;    // a path
  std::string spec_file;  // its name, for messages; empty: there is none
};

struct RunJob {
  JobSpec spec;
  std::vector<std::string> workers;  // the names of this host's, in order
  bool differs_from_file = false;    // the workers need a file of their own
};

// InvalidArgument, in one sentence, if the spec is malformed, if --job and the
// spec name different jobs, if there is no such node, if the spec allows fewer
// restarts, or if the workers are not as many as the mesh has ranks: such a job
// would wait for others until its join deadline.
absl::StatusOr<RunJob> DecideJob(const RunRequest& request,
                                 const std::string& spec_text);

// The job when the coordinator has one of this name already, which is not over,
// with the spec `existing`: without a file the workers bring that spec, and not
// one that each of them would be refused for. InvalidArgument, in one sentence,
// if the file has another spec, or if workers or restarts do not fit the job.
absl::StatusOr<RunJob> JoinExisting(const RunRequest& request,
                                    const JobSpec& existing, const RunJob& job);

}  // namespace lockstep::ctl

#endif  // LOCKSTEP_TOOLS_CTL_RUN_JOB_H_
