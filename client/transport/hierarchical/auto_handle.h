// What the members of a group tell each other when they do not know yet how
// they will be connected: where each can be met, and how it can be linked to.
//
//   auto1 SHM_HANDLE + LINK_HANDLE

#ifndef LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_AUTO_HANDLE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_AUTO_HANDLE_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/transport/shm/shm_handle.h"

namespace lockstep::transport {

struct AutoHandle {
  ShmHandle shm;
  std::string link;
};

std::string Format(const AutoHandle& handle);

// InvalidArgument, blaming `rank`, unless `text` is a handle of `rank` in a
// group of `size`. What the link's part is worth, its source knows.
absl::StatusOr<AutoHandle> ParseAutoHandle(const std::string& text, int rank,
                                           int size);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_AUTO_HANDLE_H_
