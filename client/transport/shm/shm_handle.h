// What the members of a group tell each other before they meet, through the
// coordinator: where each can be met, and what proves that one was told. One
// line of text:
//
//   shm1 RANK SIZE BOOT NAMESPACE SOCKET TOKEN
//
// BOOT is the kernel's boot id and NAMESPACE the network namespace, which
// together say where SOCKET, an abstract Unix address, means something.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_HANDLE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_HANDLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::transport {

// Where a process runs, as far as meeting goes.
struct Endpoint {
  std::string boot;
  std::string network;  // its namespace
  bool operator==(const Endpoint&) const = default;
};
Endpoint EndpointOfThisProcess();
// Equal for equal whereabouts (TransportFacts::place).
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

// InvalidArgument, blaming `rank`, unless `text` is a handle of `rank` in a
// group of `size`.
absl::StatusOr<ShmHandle> ParseShmHandle(const std::string& text, int rank,
                                         int size);

// The same for the same handles in the same order, and for no others.
uint64_t GroupOf(const std::vector<std::string>& handles);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_SHM_SHM_HANDLE_H_
