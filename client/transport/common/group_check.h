// The checks at the beginning of every transport's Prepare and Connect.

#ifndef LOCKSTEP_CLIENT_TRANSPORT_COMMON_GROUP_CHECK_H_
#define LOCKSTEP_CLIENT_TRANSPORT_COMMON_GROUP_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/transport/transport.h"

namespace lockstep::transport {

inline absl::Status CheckGroup(const GroupSpec& group) {
  if (group.size >= 1 && group.rank >= 0 && group.rank < group.size) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("group '", group.name, "': there is no rank ", group.rank,
                   " of ", group.size));
}

// `own` is the handle that this rank's Prepare made.
inline absl::Status CheckHandles(const GroupSpec& group,
                                 const std::vector<std::string>& handles,
                                 const std::string& own) {
  if (handles.size() != static_cast<size_t>(group.size)) {
    return absl::InvalidArgumentError(
        absl::StrCat("group '", group.name, "' of ", group.size, " ranks got ",
                     handles.size(), " handles"));
  }
  if (handles[group.rank] != own) {
    return absl::InvalidArgumentError(
        absl::StrCat("group '", group.name, "': the handle of rank ",
                     group.rank, " is not the one that rank prepared"));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::transport

#endif  // LOCKSTEP_CLIENT_TRANSPORT_COMMON_GROUP_CHECK_H_
