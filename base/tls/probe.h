// Finds out why a TLS connection to a server cannot be made, for the error of a
// client that reached none: gRPC says only that a handshake failed.
//
// Threads: any. Blocks for at most `timeout` for each step.

#ifndef LOCKSTEP_BASE_TLS_PROBE_H_
#define LOCKSTEP_BASE_TLS_PROBE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace lockstep::tls {

// Connects to HOST:PORT. `folder` has the client's certificates; empty: it
// speaks plaintext. FailedPrecondition: one side speaks TLS and the other does
// not, or the certificate of one side is not accepted by the other, and why.
// OK: nothing is wrong with TLS, or nothing is known, as nobody listens.
absl::Status ProbeTls(const std::string& address, const std::string& folder,
                      absl::Duration timeout);

}  // namespace lockstep::tls

#endif  // LOCKSTEP_BASE_TLS_PROBE_H_
