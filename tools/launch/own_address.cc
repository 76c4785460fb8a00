#include "tools/launch/own_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace lockstep::launch {
namespace {

// Splits "HOST:PORT" or "[HOST]:PORT" into HOST and PORT.
std::pair<std::string, std::string> SplitPort(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return {address, ""};
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return {host, address.substr(colon + 1)};
}

// Empty if no route leads to `peer`.
std::string SourceAddress(const addrinfo& peer) {
  const int fd = socket(peer.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return "";
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  char text[NI_MAXHOST] = {};
  const bool known =
      connect(fd, peer.ai_addr, peer.ai_addrlen) == 0 &&
      getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
      getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof text,
                  nullptr, 0, NI_NUMERICHOST) == 0;
  close(fd);
  return known ? text : "";
}

}  // namespace

absl::StatusOr<std::string> OwnAddressTowards(const std::string& addresses) {
  const std::string first(
      absl::StripAsciiWhitespace(addresses.substr(0, addresses.find(','))));
  const auto [host, port] = SplitPort(first);
  const addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM};
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat(first, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> peers(found,
                                                                 freeaddrinfo);
  for (const addrinfo* peer = found; peer != nullptr; peer = peer->ai_next) {
    std::string own = SourceAddress(*peer);
    if (!own.empty()) return own;
  }
  return absl::UnavailableError(absl::StrCat("no route leads to ", first));
}

}  // namespace lockstep::launch
