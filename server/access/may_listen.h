// Whether a coordinator may listen at an address: what lockstepd checks at its
// start, and lockstepctl doctor before.
//
// Threads: any.

#ifndef LOCKSTEP_SERVER_ACCESS_MAY_LISTEN_H_
#define LOCKSTEP_SERVER_ACCESS_MAY_LISTEN_H_

#include <string>

#include "absl/status/status.h"
#include "server/access/address.h"

namespace lockstep::rpc {

// FailedPrecondition: an address that is reachable from other machines, without
// certificates (an empty `tls_folder`) or `insecure`.
absl::Status MayListen(const Address& listen, const std::string& tls_folder,
                       bool insecure);

// InvalidArgument: `insecure`, though there are certificates.
absl::Status CheckInsecure(const std::string& tls_folder, bool insecure);

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_ACCESS_MAY_LISTEN_H_
