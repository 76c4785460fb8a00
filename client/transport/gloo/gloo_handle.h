// The handles that the members of a group exchange before they connect: the
// address at which each rank listens for each other rank. One line of text:
//
//   gloo2 RANK SIZE ADDRESS PORT,PORT,...
//
// with a port for every rank in order, 0 for the rank itself. Also the header
// that the connecting side sends first, by which the listening side recognises
// a member.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_GLOO_GLOO_HANDLE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_GLOO_GLOO_HANDLE_H_

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::transport {

struct GlooHandle {
  int rank = 0;
  std::string address;          // numeric
  std::vector<uint16_t> ports;  // by rank

  friend bool operator==(const GlooHandle&, const GlooHandle&) = default;
};

std::string Format(const GlooHandle& handle);

// InvalidArgument unless `text` is a handle of `rank` in a group of `size`.
absl::StatusOr<GlooHandle> ParseGlooHandle(const std::string& text, int rank,
                                           int size);

// A number that is the same for all ranks that connect with the same handles.
uint64_t GroupOf(const std::vector<GlooHandle>& handles);

// The first bytes of a connection.
struct ConnectionHeader {
  static constexpr uint64_t kMagic = 0x326f6f6c476b634c;  // "LckGloo2"

  uint64_t magic = kMagic;
  uint64_t group = 0;  // GroupOf
  int32_t from = 0;    // the rank that connects
  int32_t to = 0;      // the rank that listens

  friend bool operator==(const ConnectionHeader&,
                         const ConnectionHeader&) = default;
};

// The address at which `handle`'s rank listens for `rank`.
absl::StatusOr<sockaddr_storage> ListenerFor(const GlooHandle& handle,
                                             int rank);

// The host ("127.0.0.1") and port (7070) of a socket's address.
std::string NumericHost(const sockaddr& address);
uint16_t Port(const sockaddr_storage& address);

inline const sockaddr& AsSockaddr(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr&>(address);
}

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_GLOO_GLOO_HANDLE_H_
