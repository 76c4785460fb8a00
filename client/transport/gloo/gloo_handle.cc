#include "client/transport/gloo/gloo_handle.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/text/utf8.h"
#include "client/transport/failed_peer.h"

namespace lockstep::transport {
namespace {

constexpr absl::string_view kVersion = "gloo2";

bool ParsePorts(absl::string_view text, GlooHandle* handle) {
  for (absl::string_view port : absl::StrSplit(text, ',')) {
    uint32_t number = 0;
    if (!absl::SimpleAtoi(port, &number) || number > UINT16_MAX) return false;
    handle->ports.push_back(static_cast<uint16_t>(number));
  }
  for (size_t rank = 0; rank < handle->ports.size(); ++rank) {
    const bool own = rank == static_cast<size_t>(handle->rank);
    if ((handle->ports[rank] == 0) != own) return false;
  }
  return true;
}

}  // namespace

std::string Format(const GlooHandle& handle) {
  return absl::StrCat(kVersion, " ", handle.rank, " ", handle.ports.size(), " ",
                      handle.address, " ", absl::StrJoin(handle.ports, ","));
}

absl::StatusOr<GlooHandle> ParseGlooHandle(const std::string& text, int rank,
                                           int size) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  GlooHandle handle{.rank = rank};
  int said_rank = -1;
  int said_size = -1;
  const bool parsed = words.size() == 5 && words[0] == kVersion &&
                      absl::SimpleAtoi(words[1], &said_rank) &&
                      said_rank == rank &&
                      absl::SimpleAtoi(words[2], &said_size) &&
                      said_size == size && ParsePorts(words[4], &handle) &&
                      handle.ports.size() == static_cast<size_t>(size);
  if (parsed) {
    handle.address = std::string(words[3]);
    if (ListenerFor(handle, rank).ok()) return handle;
  }
  return WithFailedPeer(
      absl::InvalidArgumentError(absl::StrCat("'", Printable(text),
                                              "' is no Gloo handle of rank ",
                                              rank, " of ", size)),
      rank);
}

// FNV-1a: the same on all members, on any machine.
uint64_t GroupOf(const std::vector<GlooHandle>& handles) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const GlooHandle& handle : handles) {
    for (char c : Format(handle)) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
  }
  return hash;
}

absl::StatusOr<sockaddr_storage> ListenerFor(const GlooHandle& handle,
                                             int rank) {
  sockaddr_storage storage;
  std::memset(&storage, 0, sizeof storage);
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  const char* const address = handle.address.c_str();
  if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(handle.ports[rank]);
    return storage;
  }
  if (inet_pton(AF_INET6, address, &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(handle.ports[rank]);
    return storage;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", handle.address, "' is no address"));
}

std::string NumericHost(const sockaddr& address) {
  const socklen_t length = address.sa_family == AF_INET6 ? sizeof(sockaddr_in6)
                                                         : sizeof(sockaddr_in);
  char host[NI_MAXHOST] = "?";
  getnameinfo(&address, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return host;
}

uint16_t Port(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

}  // namespace lockstep::transport
