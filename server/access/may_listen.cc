#include "server/access/may_listen.h"

#include "absl/strings/str_cat.h"

namespace lockstep::rpc {

absl::Status MayListen(const Address& listen, const std::string& tls_folder,
                       bool insecure) {
  if (insecure || !tls_folder.empty() || IsLoopback(listen)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      ToString(listen),
      " can be reached from other machines, and there are no certificates for "
      "TLS. Make some and use them:\n"
      "  lockstepctl certs init certs --host NAME\n"
      "  lockstepd --tls certs/coordinator ...\n"
      "where NAME is how others reach this host. Or listen on 127.0.0.1, or "
      "say --insecure if the network is trusted"));
}

absl::Status CheckInsecure(const std::string& tls_folder, bool insecure) {
  if (!insecure || tls_folder.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--insecure is for a daemon without TLS: leave it out with --tls");
}

}  // namespace lockstep::rpc
