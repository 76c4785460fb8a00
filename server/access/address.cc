#include "server/access/address.h"

#include <arpa/inet.h>

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/text/utf8.h"

namespace lockstep::rpc {
namespace {

absl::Status NoAddress(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", Printable(text.substr(0, 200)),
                   "\" is no address of the form HOST:PORT"));
}

}  // namespace

absl::StatusOr<Address> ParseAddress(absl::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return NoAddress(text);
  absl::string_view host = text.substr(0, colon);
  Address address;
  if (!absl::SimpleAtoi(text.substr(colon + 1), &address.port) ||
      address.port < 0 || address.port > 65535) {
    return NoAddress(text);
  }
  const bool bracketed =
      host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool is_ipv6 = host.find(':') != absl::string_view::npos;
  if (host.empty() || is_ipv6 != bracketed) return NoAddress(text);
  address.host = std::string(host);
  return address;
}

std::string ToString(const Address& address) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return is_ipv6 ? absl::StrCat("[", address.host, "]:", address.port)
                 : absl::StrCat(address.host, ":", address.port);
}

std::string AddressOfGrpcPeer(absl::string_view peer) {
  for (const char* scheme : {"ipv4:", "ipv6:"})
    absl::ConsumePrefix(&peer, scheme);
  return Printable(
      absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}}));
}

bool IsLoopback(const Address& address) {
  if (address.host == "localhost") return true;
  in_addr v4{};
  if (inet_pton(AF_INET, address.host.c_str(), &v4) == 1) {
    return ntohl(v4.s_addr) >> 24 == 127;
  }
  in6_addr v6{};
  return inet_pton(AF_INET6, address.host.c_str(), &v6) == 1 &&
         IN6_IS_ADDR_LOOPBACK(&v6);
}

}  // namespace lockstep::rpc
