// The handle of a member of an auto group, before the transport is chosen: the
// handles for shared memory and for the link.
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

// InvalidArgument, with failed peer `rank`, unless `text` is a handle of `rank`
// in a group of `size`. The link's part is not checked: PendingLink::Connect
// does that.
absl::StatusOr<AutoHandle> ParseAutoHandle(const std::string& text, int rank,
                                           int size);

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_HIERARCHICAL_AUTO_HANDLE_H_
