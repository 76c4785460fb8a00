// Whether a worker's data may leave its machine.
//
// Threads: none of its own.

#ifndef LOCKSTEP_CLIENT_SESSION_DATA_PLANE_H_
#define LOCKSTEP_CLIENT_SESSION_DATA_PLANE_H_

#include <string>

#include "absl/status/status.h"
#include "lockstep/job_spec.h"

namespace lockstep::session {

// FailedPrecondition if the other workers reach this one at `host_address`,
// which is no loopback address, by a transport without encryption, and the spec
// does not say that the network is trusted.
absl::Status CheckDataPlane(const JobSpec& spec,
                            const std::string& host_address);

}  // namespace lockstep::session

#endif  // LOCKSTEP_CLIENT_SESSION_DATA_PLANE_H_
