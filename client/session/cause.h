// Why an epoch ended, as the status that every waiting call returns.
//
//   mismatch          InvalidArgument        stopped         Cancelled
//   join deadline     DeadlineExceeded       connect failed  Unavailable
//   all others        Aborted: joining again may help
//
// The message is the coordinator's: worker, position, since when.

#ifndef LOCKSTEP_CLIENT_SESSION_CAUSE_H_
#define LOCKSTEP_CLIENT_SESSION_CAUSE_H_

#include "absl/status/status.h"
#include "client/session/view.h"
#include "protocol/evidence.h"

namespace lockstep::session {

absl::Status StatusOf(const protocol::EpochEnded& ended);
// The same at the job's end for a worker that has waited for a rank: Cancelled
// if the job completed.
absl::Status StatusOfWaiting(const JobName& job, const WorkerName& worker,
                             const protocol::EpochEnded& ended);

// The status from this worker's own knowledge, before the coordinator's cause.
absl::Status StatusOfFailure(const View& view,
                             const protocol::LocalFailure& failure);
absl::Status StatusOfDeath(int rank, const protocol::Evidence& evidence);

// The rank of the member that the evidence is about; -1 if it is about no
// member, or about a former incarnation of one.
int RankOf(const View& view, const protocol::Evidence& evidence);

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_CAUSE_H_
