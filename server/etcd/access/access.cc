#include "server/etcd/access/access.h"

#include "absl/strings/str_cat.h"

namespace lockstep::etcd {

absl::StatusOr<Url> UrlThatMayBeAsked(absl::string_view text,
                                      const std::string& tls_folder,
                                      bool insecure) {
  auto url = ParseUrl(text);
  if (!url.ok()) return url.status();
  const bool is_safe = url->is_on_loopback || !tls_folder.empty() || insecure;
  if (is_safe) return url;
  return absl::FailedPreconditionError(absl::StrCat(
      text,
      " is on other machines, and would be asked in plaintext: whoever can "
      "reach that network could change the journal. Use --etcd_tls DIR, with "
      "ca.crt, tls.crt and tls.key for etcd's clients, or say "
      "--insecure if the network is trusted"));
}

tls::ProbedServer EtcdWords() {
  return {
      .name = "etcd",
      .role = "a server",
      .if_it_serves_tls =
          "use --etcd_tls DIR, with ca.crt, tls.crt and "
          "tls.key for etcd's clients",
      .if_it_serves_plaintext = "leave out --etcd_tls, or let etcd serve TLS"};
}

absl::Status ProbeMembers(const std::vector<std::string>& members,
                          const std::string& tls_folder) {
  return tls::ProbeTls(members, tls_folder, EtcdWords());
}

}  // namespace lockstep::etcd
