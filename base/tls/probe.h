// Finds out why a TLS connection to a server cannot be made, for the error of a
// client that reached none: gRPC says only that a handshake failed.
//
// Threads: any. Blocks for at most a second for each step with each server.

#ifndef LOCKSTEP_BASE_TLS_PROBE_H_
#define LOCKSTEP_BASE_TLS_PROBE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/tls/certificate.h"

namespace lockstep::tls {

// The words for the server in errors: what it is, what its certificate must be
// one of, and what to do if only one side speaks TLS.
struct ProbedServer {
  std::string name = "coordinator";
  std::string role = "a coordinator";
  std::string if_it_serves_tls =
      "give it a folder of lockstepctl certs, by --tls or LOCKSTEP_TLS";
  std::string if_it_serves_plaintext =
      "start lockstepd with --tls, or this client without";
};

// Why no connection can be made.
struct TlsFault {
  std::string what;    // with the server's address
  std::string remedy;  // empty: other certificates, or a clock set right
};

// Connects to each HOST:PORT, and returns the first fault. `folder` has the
// client's certificates; empty: it speaks plaintext. A fault: one side speaks
// TLS and the other does not, or the certificate of one side is not accepted by
// the other, and why. None: nothing is wrong with TLS, or nothing is known, as
// nobody listens.
std::optional<TlsFault> FindTlsFault(absl::Span<const std::string> addresses,
                                     const std::string& folder,
                                     const ProbedServer& server = {});

// FailedPrecondition, with what FindTlsFault finds and its remedy; OK: nothing.
absl::Status ProbeTls(absl::Span<const std::string> addresses,
                      const std::string& folder,
                      const ProbedServer& server = {});

// The certificate that the server at HOST:PORT shows a client with `folder`,
// whether it is accepted or not. Unavailable if it shows none: nobody listens,
// or it speaks plaintext.
absl::StatusOr<CertificateFacts> ShownCertificate(const std::string& address,
                                                  const std::string& folder);

}  // namespace lockstep::tls

#endif  // LOCKSTEP_BASE_TLS_PROBE_H_
