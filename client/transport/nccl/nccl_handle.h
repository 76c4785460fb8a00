// The handles that a group's members exchange before they connect.
//
//   rank 0       "nccl 0/4 <256 hex digits>"   the group's id
//   the others   "nccl 2/4"

#ifndef LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_HANDLE_H_
#define LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_HANDLE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/transport/nccl/nccl_api.h"
#include "client/transport/transport.h"

namespace lockstep::transport::nccl {

// `id` is null except for the first rank.
std::string FormatHandle(const GroupSpec& group, const NcclUniqueId* id);

// The group's id. InvalidArgument, naming the rank as failed_peer, for a handle
// that does not belong to its rank.
absl::StatusOr<NcclUniqueId> ParseHandles(
    const GroupSpec& group, const std::vector<std::string>& handles);

}  // namespace lockstep::transport::nccl

#endif  // LOCKSTEP_CLIENT_TRANSPORT_NCCL_NCCL_HANDLE_H_
