// The handles that the members of a group exchange before they connect: the
// address at which each rank listens for each other rank, and a secret. One
// line of text:
//
//   gloo3 RANK SIZE ADDRESS PORT,PORT,... SECRET
//
// with a port for every rank in order, 0 for the rank itself, and 32
// hexadecimal digits. The coordinator sends handles to members only, so the
// secrets of all ranks together are a key by which members recognise one
// another:
//
//   rank a ── header: HMAC(key, "connect", a, b) ──▶ rank b     who connects
//   rank a ◀─ greeting: HMAC(key, "greet", b, a) ─── rank b     who listens
//          ── greeting: HMAC(key, "greet", a, b) ──▶
//
// before either sends data. What follows is not authenticated.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_GLOO_GLOO_HANDLE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_GLOO_GLOO_HANDLE_H_

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lockstep::transport {

struct GlooHandle {
  int rank = 0;
  std::string address;          // numeric
  std::vector<uint16_t> ports;  // by rank
  std::string secret;           // 32 hexadecimal digits

  friend bool operator==(const GlooHandle&, const GlooHandle&) = default;
};

std::string Format(const GlooHandle& handle);

// InvalidArgument unless `text` is a handle of `rank` in a group of `size`.
absl::StatusOr<GlooHandle> ParseGlooHandle(const std::string& text, int rank,
                                           int size);

// A secret that nobody can guess. Internal if the system has no random numbers.
absl::StatusOr<std::string> DrawGlooSecret();

// What only those know who have all handles: a SHA-256.
using GroupKey = std::array<unsigned char, 32>;
GroupKey KeyOf(const std::vector<GlooHandle>& handles);

// An HMAC-SHA256 that shows one rank, in one role, that another has the key.
using LinkProof = std::array<unsigned char, 32>;
LinkProof ProofOf(const GroupKey& key, absl::string_view role, int from,
                  int to);
// In a time that does not depend on where they differ.
bool Equal(const LinkProof& a, const LinkProof& b);

// The first bytes of a connection.
struct ConnectionHeader {
  static constexpr uint64_t kMagic = 0x336f6f6c476b634c;  // "LckGloo3"
  static constexpr absl::string_view kRole = "connect";

  uint64_t magic = kMagic;
  int32_t from = 0;  // the rank that connects
  int32_t to = 0;    // the rank that listens
  LinkProof proof{};
};

ConnectionHeader HeaderOf(const GroupKey& key, int from, int to);

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
