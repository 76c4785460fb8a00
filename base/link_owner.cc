#include "base/link_owner.h"

#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_format.h"

namespace lockstep {

absl::Status CheckLinkOwner(const std::string& path) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0 || !S_ISLNK(found.st_mode)) {
    return absl::OkStatus();
  }
  if (found.st_uid == 0 || found.st_uid == geteuid()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s is a link of user %d, who could lead user %d to any file: nothing is "
      "written through it",
      path, found.st_uid, geteuid()));
}

}  // namespace lockstep
