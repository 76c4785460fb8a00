// What the members of a group tell each other before they connect: where each
// listens for each. One line of text:
//
//   gloo2 RANK SIZE ADDRESS PORT,PORT,...
//
// with a port for every rank in order, 0 for the rank itself. And what the
// connecting side of a connection sends first, so that the listening side knows
// a member from a stranger.

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

// A number that all who connect with the same handles have in common.
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

// Where `handle`'s rank listens for `rank`.
absl::StatusOr<sockaddr_storage> ListenerFor(const GlooHandle& handle,
                                             int rank);

// "127.0.0.1" and 7070 of a socket's address.
std::string NumericHost(const sockaddr& address);
uint16_t Port(const sockaddr_storage& address);

inline const sockaddr& AsSockaddr(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr&>(address);
}

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_GLOO_GLOO_HANDLE_H_
