// Who has not come: the sentence of the join deadline.
//
//   the spec lists its workers      those of the list that are not there
//   there was an epoch before       those of its members that are not there
//   the present are PREFIX-<int>    the numbers that are missing
//   else                            how many
//
// A pure function.

#ifndef LOCKSTEP_SERVER_CORE_MISSING_WORKERS_H_
#define LOCKSTEP_SERVER_CORE_MISSING_WORKERS_H_

#include <set>
#include <string>
#include <vector>

#include "lockstep/job_spec.h"
#include "plan/words/ids.h"
#include "plan/words/protocol.h"

namespace lockstep::core {

// The missing workers in rank or natural order, or nothing if their names
// cannot be known.
std::vector<std::string> MissingWorkers(
    const JobSpec& spec, const std::set<WorkerName>& arrived,
    const std::vector<protocol::Member>& previous);

// "2 of 4 workers are missing: worker-2, worker-3". Names every one; where
// there are very many, runs of numbers are drawn together: "w-7 to w-99".
std::string DescribeMissing(const JobSpec& spec,
                            const std::set<WorkerName>& arrived,
                            const std::vector<protocol::Member>& previous);

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_MISSING_WORKERS_H_
