// Parses and formats HOST:PORT.

#ifndef LOCKSTEP_SERVER_ACCESS_ADDRESS_H_
#define LOCKSTEP_SERVER_ACCESS_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lockstep::rpc {

struct Address {
  std::string host;  // without brackets
  int port = 0;      // 0: any free port
};

// "127.0.0.1:7070", "[::1]:0", "coordinator:7070". InvalidArgument quotes the
// text.
absl::StatusOr<Address> ParseAddress(absl::string_view text);
std::string ToString(const Address& address);

// "[::1]:40123" of gRPC's "ipv6:%5B::1%5D:40123"; printable.
std::string AddressOfGrpcPeer(absl::string_view peer);

// Whether the address is reachable from this machine only: localhost, 127.*,
// ::1.
bool IsLoopback(const Address& address);

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_SERVER_ACCESS_ADDRESS_H_
