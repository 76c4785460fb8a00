// What the members of a group tell each other before they connect: where each
// listens for each. One line of text:
//
//   gloo1 RANK SIZE ADDRESS PORT,PORT,...
//
// with a port for every rank in order, 0 for the rank itself.

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
