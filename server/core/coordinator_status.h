// Why the coordinator as a whole refuses something.

#ifndef LOCKSTEP_SERVER_CORE_COORDINATOR_STATUS_H_
#define LOCKSTEP_SERVER_CORE_COORDINATOR_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "protocol/ids.h"

namespace lockstep::core {

inline absl::Status UnknownJob(const JobName& job) {
  return absl::NotFoundError(
      absl::StrFormat("there is no job %s here", job.value));
}

inline absl::Status GoingDown() {
  return absl::UnavailableError("coordinator is shutting down");
}

}  // namespace lockstep::core

#endif  // LOCKSTEP_SERVER_CORE_COORDINATOR_STATUS_H_
