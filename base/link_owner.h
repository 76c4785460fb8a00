// Links that another user has planted where this process writes. Whoever owns a
// link chooses the file behind it, among all that this process may write.
//
// Threads: any.

#ifndef LOCKSTEP_BASE_LINK_OWNER_H_
#define LOCKSTEP_BASE_LINK_OWNER_H_

#include <string>

#include "absl/status/status.h"

namespace lockstep {

// FailedPrecondition if `path` is a symbolic link of another user than root or
// the user of this process. OK if it is a link of these two, no link, or does
// not exist. Only the last name of the path is looked at.
absl::Status CheckLinkOwner(const std::string& path);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_LINK_OWNER_H_
