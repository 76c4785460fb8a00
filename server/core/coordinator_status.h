// Why the coordinator as a whole refuses something.

#ifndef LOCKSTEP_SERVER_CORE_COORDINATOR_STATUS_H_
#define LOCKSTEP_SERVER_CORE_COORDINATOR_STATUS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "protocol/ids.h"

namespace lockstep::core {

inline absl::Status UnknownJob(const JobName& job) {
  return absl::NotFoundError(
      absl::StrFormat("there is no job %s here", job.value));
}

// To a worker whose epoch is over. Only the coordinator that formed the epoch
// can decide how training goes on.
inline absl::Status UnknownEpoch(const JobName& job, EpochId epoch,
                                 const WorkerName& worker) {
  return absl::NotFoundError(absl::StrFormat(
      "this coordinator does not know epoch %d of job %s, which %s was in: it "
      "was started without the journal of the one before. Start the workers of "
      "the job again",
      epoch.value, job.value, worker.value));
}

// To a worker that joins with the state of a job that has none here: new
// workers would begin with other state.
inline absl::Status UnknownState(const JobName& job, uint64_t steps,
                                 EpochId epoch, const WorkerName& worker) {
  return absl::NotFoundError(absl::StrFormat(
      "this coordinator does not know job %s, whose state after %d steps "
      "(epoch "
      "%d) %s has: it was started without the journal of the one before. Start "
      "the workers of the job again",
      job.value, steps, epoch.value, worker.value));
}

// To a worker that a coordinator with a higher term has welcomed: what this one
// says would have no effect there.
inline absl::Status OlderTerm(const JobName& job, const WorkerName& worker,
                              LeaderTerm ours, LeaderTerm heard) {
  return absl::UnavailableError(absl::StrFormat(
      "%s of job %s has heard a coordinator with term %d, and this one has "
      "term "
      "%d: another one leads, or did so with another journal, or with newer "
      "data of the same (docs/high-availability.md, Back up and restore etcd). "
      "The "
      "workers of that job train on without this one",
      worker.value, job.value, heard.value, ours.value));
}

inline absl::Status GoingDown() {
  return absl::UnavailableError("coordinator is shutting down");
}

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_COORDINATOR_STATUS_H_
