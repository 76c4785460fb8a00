// The handle that each member sends the others through the coordinator: the
// address of its socket, and a token that proves membership. One line of text:
//
//   shm1 RANK SIZE BOOT NAMESPACE SOCKET TOKEN
//
// BOOT is the kernel's boot id and NAMESPACE the network namespace. SOCKET, an
// abstract Unix address, is valid only within these two.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_HANDLE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_HANDLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::transport {

// The scope in which processes can reach each other's sockets.
struct Endpoint {
  std::string boot;
  std::string network;  // network namespace
  bool operator==(const Endpoint&) const = default;
};
Endpoint EndpointOfThisProcess();
// Equal for equal endpoints (TransportFacts::place).
std::string PlaceOf(const Endpoint& where);

struct ShmHandle {
  int rank = 0;
  int size = 1;
  Endpoint where;
  std::string socket;  // without the zero byte
  uint64_t token = 0;

  bool operator==(const ShmHandle&) const = default;
};

std::string Format(const ShmHandle& handle);

// InvalidArgument, with failed peer `rank`, unless `text` is a handle of `rank`
// in a group of `size`.
absl::StatusOr<ShmHandle> ParseShmHandle(const std::string& text, int rank,
                                         int size);

// A hash of the handles in their order, which identifies the group.
uint64_t GroupOf(const std::vector<std::string>& handles);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_HANDLE_H_
