#include "client/session/data_plane.h"

#include <netdb.h>
#include <netinet/in.h>

#include "absl/strings/str_format.h"
#include "base/text/utf8.h"

namespace lockstep::session {
namespace {

bool IsLoopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  return address.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

// Every address of the name. A name that is unknown has none: the transport
// says so.
bool IsLoopback(const std::string& host) {
  addrinfo* found = nullptr;
  const addrinfo hints{.ai_socktype = SOCK_STREAM};
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return true;
  bool all = true;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    all &= IsLoopback(*at->ai_addr);
  }
  freeaddrinfo(found);
  return all;
}

}  // namespace

absl::Status CheckDataPlane(const JobSpec& spec,
                            const std::string& host_address) {
  const bool stays = spec.transport == "shm" || IsLoopback(host_address);
  if (stays || spec.data_plane == DataPlane::kTrusted) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "workers of job %s reach this one at %s (LOCKSTEP_HOST_ADDRESS): their "
      "data would cross a network without encryption. If all hosts on it are "
      "trusted, state `data_plane: trusted` in the spec",
      spec.name, Printable(host_address)));
}

}  // namespace lockstep::session
