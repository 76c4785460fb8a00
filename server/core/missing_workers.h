// The workers that are missing when the join deadline passes.
//
//   the spec lists its workers      the listed names that have not arrived
//   there was an epoch before       its members that have not arrived
//   the present are PREFIX-<int>    the missing numbers
//   else                            only their count
//
// A pure function.

#ifndef LOCKSTEP_SERVER_CORE_MISSING_WORKERS_H_
#define LOCKSTEP_SERVER_CORE_MISSING_WORKERS_H_

#include <set>
#include <string>
#include <vector>

#include "lockstep/job_spec.h"
#include "protocol/ids.h"
#include "protocol/types.h"

namespace lockstep::core {

// The missing workers in rank or natural order; empty if their names are
// unknown.
std::vector<std::string> MissingWorkers(
    const JobSpec& spec, const std::set<WorkerName>& arrived,
    const std::vector<protocol::Member>& previous);

// "2 of 4 workers are missing: worker-2, worker-3". Names every one; long lists
// are shortened to ranges: "w-7 to w-99". For an elastic job also with how many
// workers it runs.
std::string DescribeMissing(const JobSpec& spec,
                            const std::set<WorkerName>& arrived,
                            const std::vector<protocol::Member>& previous);

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_MISSING_WORKERS_H_
