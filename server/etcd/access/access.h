// Whether a coordinator may ask an etcd, and why it gets no answer: what
// lockstepd checks at its start, and lockstepctl doctor before.
//
// Threads: any.

#ifndef LOCKSTEP_SERVER_ETCD_ACCESS_ACCESS_H_
#define LOCKSTEP_SERVER_ETCD_ACCESS_ACCESS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/tls/probe.h"
#include "server/etcd/access/url.h"

namespace lockstep::etcd {

// Errors of ParseUrl. FailedPrecondition: members on other machines would be
// asked in plaintext, which `insecure` allows. `tls_folder`: --etcd_tls.
absl::StatusOr<Url> UrlThatMayBeAsked(absl::string_view text,
                                      const std::string& tls_folder,
                                      bool insecure);

// The words for etcd in what tls::ProbeTls and tls::FindTlsFault find.
tls::ProbedServer EtcdWords();

// FailedPrecondition: no connection can be made, as one side speaks TLS and the
// other does not, or does not accept the other's certificate. Blocks as
// tls::ProbeTls does.
absl::Status ProbeMembers(const std::vector<std::string>& members,
                          const std::string& tls_folder);

}  // namespace lockstep::etcd

#endif  // LOCKSTEP_SERVER_ETCD_ACCESS_ACCESS_H_
